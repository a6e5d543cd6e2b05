// Halving-doubling (Rabenseifner 2004): reduce-scatter by recursive halving, all-gather by
// recursive doubling. It moves as little as the ring, 2 (q - 1) / q of the vector, in 2 log2 q
// hops, where q is the largest power of two up to p.
//
// The p - q ranks in excess are folded in (Core in plan/group.h).
//
// 16-bit elements to which a rank adds again before it sends them stay in wide memory. It bounds
// the elements that are halved at a time; longer vectors are halved chunk by chunk, and then
// doubled.
#include <algorithm>
#include <vector>

#include "plan/algorithms.h"

namespace r2ccl {
namespace {

class HalvingDoubling {
 public:
  HalvingDoubling(const GroupReduction& what, const PlanLimits& limits, PlanBuilder& plan)
      : plan_(plan),
        core_(what.group),
        segment_(segment_count(limits.segment_bytes_max, what.type, limits)),
        part_(segment_count(limits.segment_bytes_min, what.type, limits)),
        widens_(plan.widens() && (core_.size() > 2 || core_.in_pair())) {
    const uint64_t most = plan.widens() ? plan.wide_group() : what.result.count;
    for (uint64_t begin = 0; begin < what.result.count; begin += most) {
      const uint64_t count = std::min(most, what.result.count - begin);
      chunks_.push_back({part_at(what.result, begin, count), part_at(what.partial, begin, count)});
    }
  }

  void build() {
    for (Chunk& chunk : chunks_) {
      if (core_.in_excess()) {
        send(core_.partner(), rounded(chunk, chunk.whole));
      } else {
        halve_all(chunk);
      }
    }
    for (const Chunk& chunk : chunks_) {
      if (core_.in_excess()) {
        receive(core_.partner(), chunk.whole);
      } else {
        double_all(chunk);
      }
    }
  }

 private:
  // One round of halving between this rank and `peer` (a position): the half that each of them
  // keeps.
  struct Round {
    uint32_t distance;
    uint32_t peer;
    Region kept;
    Region given;
  };

  // Returns how the rank at `position` halves `range` with the one `distance` away.
  static Round halve(const Region& range, uint32_t position, uint32_t distance) {
    Region low = range;
    low.count = range.count / 2;
    const Region high{range.buffer, range.offset + low.count, range.count - low.count};
    const bool keeps_low = (position & distance) == 0;
    return {distance, position ^ distance, keeps_low ? low : high, keeps_low ? high : low};
  }

  // Returns `kept` of a round of the rank at `position`, cut as its later rounds will cut it, in
  // the order in which they send it. Parts too small to be worth a message stay together.
  std::vector<Region> parts(Region kept, uint32_t position, uint32_t distance) const {
    std::vector<Region> result;
    for (distance /= 2; distance > 0 && kept.count / 2 >= part_; distance /= 2) {
      const Round round = halve(kept, position, distance);
      result.push_back(round.given);
      kept = round.kept;
    }
    result.push_back(kept);
    return result;
  }

  // Elements that are halved together. Wide memory bounds them.
  struct Chunk {
    Region whole;    // in the output
    Region partial;  // the place of this rank's partial result
    std::vector<Round> rounds{};
  };

  static Region part_at(const Region& region, uint64_t begin, uint64_t count) {
    return {region.buffer, region.offset + begin, count};
  }
  // Returns the place of the partial result of `part` of the chunk.
  static Region place(const Chunk& chunk, const Region& part) {
    return part_at(chunk.partial, part.offset - chunk.whole.offset, part.count);
  }
  // Returns the same, rounded to the type of the elements, as it can be sent.
  Region rounded(const Chunk& chunk, const Region& part) {
    const Region partial = place(chunk, part);
    if (partial.buffer != Buffer::wide) return partial;
    for (uint64_t begin = 0; begin < part.count; begin += segment_) {
      const uint64_t count = std::min(segment_, part.count - begin);
      plan_.copy(part_at(partial, begin, count), part_at(part, begin, count));
    }
    return part;
  }

  void halve_all(Chunk& chunk) {
    const Region open = widens_ && chunk.partial.buffer != Buffer::wide
                            ? plan_.take_wide(chunk.whole.count)
                            : chunk.partial;
    const Region next = widens_ ? open : chunk.whole;
    if (core_.in_pair()) {
      reduce(core_.partner(), chunk.partial, next, false);
      chunk.partial = next;
    }
    Region range = chunk.whole;
    bool is_rounded = false;
    const uint32_t self = core_.position();
    for (uint32_t distance = core_.size() / 2; distance > 0; distance /= 2) {
      const Round round = halve(range, self, distance);
      give(round, is_rounded ? round.given : rounded(chunk, round.given));
      is_rounded = keep(chunk, round, next);
      chunk.partial = next;
      chunk.rounds.push_back(round);
      range = round.kept;
    }
  }

  // Sends the half that this rank gives away. It lies in `partial`.
  void give(const Round& round, const Region& partial) {
    for (const Region& part : parts(round.given, round.peer, round.distance)) {
      const uint64_t begin = part.offset - round.given.offset;
      send(core_.at(round.peer), part_at(partial, begin, part.count));
    }
  }

  // Reduces the half that this rank keeps, into `next`, the place of the chunk's partial result
  // from now on. Returns whether the part that the next round gives away already lies rounded in
  // the output.
  bool keep(const Chunk& chunk, const Round& round, const Region& next) {
    const std::vector<Region> kept = parts(round.kept, core_.position(), round.distance);
    const bool last = round.distance == 1;
    const bool is_apart = kept.size() > 1;
    for (const Region& part : kept) {
      const bool rounds = last || (is_apart && part == kept[0]);
      const Region further = part_at(next, part.offset - chunk.whole.offset, part.count);
      reduce(core_.at(round.peer), place(chunk, part), rounds ? part : further, last);
    }
    return is_apart;
  }

  void double_all(const Chunk& chunk) {
    const std::vector<Round>& rounds = chunk.rounds;
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
      const Rank peer = core_.at(round->peer);
      const std::vector<Region> sent = parts(round->kept, core_.position(), round->distance);
      for (auto part = sent.rbegin(); part != sent.rend(); ++part) send(peer, *part);
      const std::vector<Region> received = parts(round->given, round->peer, round->distance);
      for (auto part = received.rbegin(); part != received.rend(); ++part) receive(peer, *part);
    }
    if (core_.in_pair()) send(core_.partner(), chunk.whole);
  }

  void send(Rank peer, const Region& region) { plan_.send_pieces(peer, region, segment_); }
  void receive(Rank peer, const Region& region) { plan_.receive_pieces(peer, region, segment_); }

  // Adds the steps that reduce what arrives from `peer`: target = source (op) received.
  void reduce(Rank peer, const Region& source, const Region& target, bool last) {
    for (uint64_t begin = 0; begin < target.count; begin += segment_) {
      const uint64_t count = std::min(segment_, target.count - begin);
      plan_.receive_reduce(peer, part_at(source, begin, count), part_at(target, begin, count),
                           last);
    }
  }

  PlanBuilder& plan_;
  const Core core_;
  const uint64_t segment_;  // elements in the largest message
  const uint64_t part_;     // elements in the smallest part that gets a message of its own
  const bool widens_;       // this rank adds more than once
  std::vector<Chunk> chunks_;
};

}  // namespace

void build_halving_doubling(const GroupReduction& what, const PlanLimits& limits,
                            PlanBuilder& plan) {
  HalvingDoubling(what, limits, plan).build();
}

}  // namespace r2ccl
