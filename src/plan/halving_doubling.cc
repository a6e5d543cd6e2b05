// Halving-doubling (Rabenseifner 2004): reduce-scatter by recursive halving, all-gather by
// recursive doubling. It moves as little as the ring, 2 (q - 1) / q of the vector, in 2 log2 q
// hops, where q is the largest power of two up to p.
//
// The p - q ranks in excess are folded in (Core in plan/group.h).
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
        whole_{Buffer::output, what.partial.offset, what.partial.count},
        partial_(what.partial.buffer) {}

  void build() {
    if (core_.in_excess()) {
      send(core_.partner(), {partial_, whole_.offset, whole_.count});
      receive(core_.partner(), whole_);
      return;
    }
    if (core_.in_pair()) reduce(core_.partner(), {partial_, whole_.offset, whole_.count}, false);
    halve_all();
    double_all();
    if (core_.in_pair()) send(core_.partner(), whole_);
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

  void halve_all() {
    Region range = whole_;
    const uint32_t self = core_.position();
    for (uint32_t distance = core_.size() / 2; distance > 0; distance /= 2) {
      const Round round = halve(range, self, distance);
      const Rank peer = core_.at(round.peer);
      for (const Region& part : parts(round.given, round.peer, distance)) {
        send(peer, {partial_, part.offset, part.count});
      }
      const Buffer own = partial_;
      for (const Region& part : parts(round.kept, self, distance)) {
        reduce(peer, {own, part.offset, part.count}, distance == 1);
      }
      rounds_.push_back(round);
      range = round.kept;
    }
  }

  void double_all() {
    for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
      const Rank peer = core_.at(round->peer);
      const std::vector<Region> sent = parts(round->kept, core_.position(), round->distance);
      for (auto part = sent.rbegin(); part != sent.rend(); ++part) send(peer, *part);
      const std::vector<Region> received = parts(round->given, round->peer, round->distance);
      for (auto part = received.rbegin(); part != received.rend(); ++part) receive(peer, *part);
    }
  }

  void send(Rank peer, const Region& region) { plan_.send_pieces(peer, region, segment_); }
  void receive(Rank peer, const Region& region) { plan_.receive_pieces(peer, region, segment_); }

  // Adds the steps that reduce `region` from `peer`. From here on the partial result is in the
  // output.
  void reduce(Rank peer, const Region& region, bool last) {
    for_each_piece(region, segment_, [&](const Region& piece) {
      plan_.receive_reduce(peer, piece, {Buffer::output, piece.offset, piece.count}, last);
    });
    partial_ = Buffer::output;
  }

  PlanBuilder& plan_;
  const Core core_;
  const uint64_t segment_;  // elements in the largest message
  const uint64_t part_;     // elements in the smallest part that gets a message of its own
  const Region whole_;
  Buffer partial_;  // place of this rank's partial result
  std::vector<Round> rounds_;
};

}  // namespace

void build_halving_doubling(const GroupReduction& what, const PlanLimits& limits,
                            PlanBuilder& plan) {
  HalvingDoubling(what, limits, plan).build();
}

}  // namespace r2ccl
