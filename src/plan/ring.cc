// The ring: reduce-scatter, then all-gather, over p blocks; each rank sends to the next one.
//
//   step k of the first half:   rank r sends block r - k, and reduces block r - k - 1 as it arrives
//   step k of the second half:  rank r sends block r + 1 - k, and receives block r - k
//
// After the first half rank r holds the complete block r + 1. Each rank sends 2 (p - 1) blocks: 2
// (p - 1) / p of the vector, which is the least there can be with equal ranks.
//
// Why blocks have segments: rank r sends in step k the block that it received in step k - 1. Were a
// block one message, each of the 2 (p - 1) steps would cost a block's time T plus the latency L
// between the last byte sent and the next rank's first (delivery, reduction, wake-up). Cut into S
// segments that go back to back, segment s of step k needs segment s of step k - 1, which arrived
// (S - 1) / S T before its turn. So while
//
//     L <= (S - 1) / S * T
//
// the sender never waits: the step boundaries vanish, also the one between the two halves, and the
// whole takes 2 (p - 1) T + L. In numbers, for p = 4 at 120 MB/s with L = 0.3 ms:
//
//     1 MB: T = 2.18 ms, S = 2:  hidden 1.1 ms of latency;  13.1 ms + 0.3 ms: 97.8 % of the line
//    16 MB: T = 35 ms,   S = 16: hidden 33 ms;               210 ms + 0.3 ms: 99.9 %
//
// The segment size does not enter the total, because a rank receives a message as it arrives. So
// segments are as large as the first condition and the staging slots allow. Dividing a block
// further only helps when L grows towards T: then the plan of the choice is halving-doubling.
#include "plan/algorithms.h"

namespace r2ccl {
namespace {

class Ring {
 public:
  Ring(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan)
      : plan_(plan),
        ranks_(static_cast<uint64_t>(key.rank_count)),
        self_(static_cast<uint64_t>(plan.rank().value())),
        next_(at(self_ + 1)),
        previous_(at(self_ + ranks_ - 1)),
        count_(key.count) {
    const uint64_t block_bytes = key.count / ranks_ * size_of(key.type);
    segment_ = segment_count(block_bytes / limits.segments_per_block, key.type, limits);
  }

  void reduce_scatter() {
    for (uint64_t k = 0; k + 1 < ranks_; ++k) {
      const Buffer partial = k == 0 ? Buffer::input : Buffer::output;
      for_each_piece(block(self_ + ranks_ - k, partial), segment_,
                     [&](const Region& piece) { plan_.send(next_, piece); });
      for_each_piece(block(self_ + ranks_ - k - 1, Buffer::output), segment_,
                     [&](const Region& piece) {
                       const Region own{Buffer::input, piece.offset, piece.count};
                       plan_.receive_reduce(previous_, own, piece, k + 2 == ranks_);
                     });
    }
  }

  void all_gather() {
    for (uint64_t k = 0; k + 1 < ranks_; ++k) {
      for_each_piece(block(self_ + ranks_ + 1 - k, Buffer::output), segment_,
                     [&](const Region& piece) { plan_.send(next_, piece); });
      for_each_piece(block(self_ + ranks_ - k, Buffer::output), segment_,
                     [&](const Region& piece) { plan_.receive(previous_, piece); });
    }
  }

 private:
  Rank at(uint64_t position) const { return Rank(static_cast<int32_t>(position % ranks_)); }

  // Returns block `index` modulo p. The first count % p blocks have one element more.
  Region block(uint64_t index, Buffer buffer) const {
    const uint64_t b = index % ranks_;
    const uint64_t base = count_ / ranks_;
    const uint64_t longer = count_ % ranks_;
    const uint64_t offset = b * base + (b < longer ? b : longer);
    return {buffer, offset, base + (b < longer ? 1 : 0)};
  }

  PlanBuilder& plan_;
  const uint64_t ranks_;
  const uint64_t self_;
  const Rank next_;
  const Rank previous_;
  const uint64_t count_;
  uint64_t segment_ = 1;
};

}  // namespace

void build_ring_all_reduce(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  Ring ring(key, limits, plan);
  ring.reduce_scatter();
  ring.all_gather();
}

}  // namespace r2ccl
