// Halving-doubling (Rabenseifner 2004): reduce-scatter by recursive halving, all-gather by
// recursive doubling. It moves as little as the ring, 2 (q - 1) / q of the vector, in 2 log2 q
// hops, where q is the largest power of two up to p.
//
// The algorithm folds in the p - q excess ranks. In each of the first p - q pairs (2i, 2i + 1), the
// even rank first sends its whole vector to the odd one, and at the end receives the result.
#include <bit>
#include <vector>

#include "plan/algorithms.h"

namespace r2ccl {
namespace {

class HalvingDoubling {
 public:
  HalvingDoubling(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan)
      : plan_(plan),
        ranks_(static_cast<uint32_t>(key.rank_count)),
        core_(std::bit_floor(ranks_)),
        folded_(ranks_ - core_),
        self_(static_cast<uint32_t>(plan.rank().value())),
        segment_(segment_count(limits.segment_bytes_max, key.type, limits)),
        part_(segment_count(limits.segment_bytes_min, key.type, limits)),
        count_(key.count) {}

  void build() {
    const bool in_pair = self_ < 2 * folded_;
    if (in_pair && self_ % 2 == 0) {
      send(self_ + 1, {Buffer::input, 0, count_});
      receive(self_ + 1, {Buffer::output, 0, count_});
      return;
    }
    if (in_pair) reduce(self_ - 1, {partial_, 0, count_}, false);
    halve_all();
    double_all();
    if (in_pair) send(self_ - 1, {Buffer::output, 0, count_});
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

  // Return the position among the q ranks that take part, and the rank at a position.
  uint32_t position() const { return self_ < 2 * folded_ ? self_ / 2 : self_ - folded_; }
  uint32_t rank_at(uint32_t position) const {
    return position < folded_ ? 2 * position + 1 : position + folded_;
  }

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
    Region range{Buffer::output, 0, count_};
    for (uint32_t distance = core_ / 2; distance > 0; distance /= 2) {
      const Round round = halve(range, position(), distance);
      const uint32_t peer = rank_at(round.peer);
      for (const Region& part : parts(round.given, round.peer, distance)) {
        send(peer, {partial_, part.offset, part.count});
      }
      const Buffer own = partial_;
      for (const Region& part : parts(round.kept, position(), distance)) {
        reduce(peer, {own, part.offset, part.count}, distance == 1);
      }
      rounds_.push_back(round);
      range = round.kept;
    }
  }

  void double_all() {
    for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
      const uint32_t peer = rank_at(round->peer);
      const std::vector<Region> sent = parts(round->kept, position(), round->distance);
      for (auto part = sent.rbegin(); part != sent.rend(); ++part) send(peer, *part);
      const std::vector<Region> received = parts(round->given, round->peer, round->distance);
      for (auto part = received.rbegin(); part != received.rend(); ++part) receive(peer, *part);
    }
  }

  void send(uint32_t peer, const Region& region) {
    for_each_piece(region, segment_, [&](const Region& piece) { plan_.send(rank(peer), piece); });
  }

  void receive(uint32_t peer, const Region& region) {
    for_each_piece(region, segment_,
                   [&](const Region& piece) { plan_.receive(rank(peer), piece); });
  }

  // Adds the steps that reduce `region` from `peer`. From here on the partial result is in the
  // output.
  void reduce(uint32_t peer, const Region& region, bool last) {
    for_each_piece(region, segment_, [&](const Region& piece) {
      plan_.receive_reduce(rank(peer), piece, {Buffer::output, piece.offset, piece.count}, last);
    });
    partial_ = Buffer::output;
  }

  static Rank rank(uint32_t value) { return Rank(static_cast<int32_t>(value)); }

  PlanBuilder& plan_;
  const uint32_t ranks_;
  const uint32_t core_;    // q
  const uint32_t folded_;  // p - q
  const uint32_t self_;
  const uint64_t segment_;  // elements in the largest message
  const uint64_t part_;     // elements in the smallest part that gets a message of its own
  const uint64_t count_;
  Buffer partial_ = Buffer::input;  // place of this rank's partial result
  std::vector<Round> rounds_;
};

}  // namespace

void build_halving_doubling(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  HalvingDoubling(key, limits, plan).build();
}

}  // namespace r2ccl
