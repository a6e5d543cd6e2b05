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
#include "plan/ring.h"

#include "plan/algorithms.h"

namespace r2ccl {

Ring::Ring(const GroupReduction& what, const PlanLimits& limits, PlanBuilder& plan)
    : plan_(plan),
      size_(what.group.size()),
      self_(what.group.self),
      next_(what.group.at(self_ + 1)),
      previous_(what.group.at(self_ + size_ - 1)),
      partial_(what.partial),
      segment_(ring_segment(what.partial.count, size_, what.type, limits)) {}

uint64_t ring_segment(uint64_t count, uint64_t ranks, DataType type, const PlanLimits& limits) {
  const uint64_t block_bytes = count / ranks * size_of(type);
  return segment_count(block_bytes / limits.segments_per_block, type, limits);
}

void Ring::reduce_step(uint64_t k) {
  const Buffer sent = k == 0 ? partial_.buffer : Buffer::output;
  plan_.send_pieces(next_, block(self_ + size_ - k, sent), segment_);
  for_each_piece(block(self_ + size_ - k - 1, Buffer::output), segment_, [&](const Region& piece) {
    const Region own{partial_.buffer, piece.offset, piece.count};
    plan_.receive_reduce(previous_, own, piece, k + 2 == size_);
  });
}

void Ring::gather_step(uint64_t k) {
  plan_.send_pieces(next_, block(self_ + size_ + 1 - k, Buffer::output), segment_);
  plan_.receive_pieces(previous_, block(self_ + size_ - k, Buffer::output), segment_);
}

Region Ring::block(uint64_t index, Buffer buffer) const {
  return part_of({buffer, partial_.offset, partial_.count}, index % size_, size_);
}

void build_ring_all_reduce(const GroupReduction& what, const PlanLimits& limits,
                           PlanBuilder& plan) {
  Ring ring(what, limits, plan);
  for (uint64_t k = 0; k < ring.steps(); ++k) ring.reduce_step(k);
  for (uint64_t k = 0; k < ring.steps(); ++k) ring.gather_step(k);
}

}  // namespace r2ccl
