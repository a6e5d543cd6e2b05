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

Ring::Ring(const GroupReduction& what, uint64_t segment, PlanBuilder& plan)
    : plan_(plan),
      size_(what.group.size()),
      self_(what.group.self),
      next_(what.group.at(self_ + 1)),
      previous_(what.group.at(self_ + size_ - 1)),
      partial_(what.partial.buffer),
      blocks_(what.result, size_, segment) {}

uint64_t ring_segment(uint64_t count, uint64_t ranks, DataType type, const PlanLimits& limits) {
  const uint64_t block_bytes = count / ranks * size_of(type);
  return segment_count(block_bytes / limits.segments_per_block, type, limits);
}

void Ring::reduce_step(uint64_t k, uint64_t piece) {
  reduce_step(k, piece, blocks_.piece(self_ + size_ - k - 1, piece, partial_));
}

void Ring::reduce_step(uint64_t k, uint64_t piece, const Region& own) {
  plan_.send(next_, blocks_.piece(self_ + size_ - k, piece, k == 0 ? partial_ : Buffer::output));
  plan_.receive_reduce(previous_, own, blocks_.piece(self_ + size_ - k - 1, piece, Buffer::output),
                       k + 2 == size_);
}

void Ring::gather_step(uint64_t k, uint64_t piece) {
  plan_.send(next_, blocks_.piece(self_ + size_ + 1 - k, piece, Buffer::output));
  plan_.receive(previous_, blocks_.piece(self_ + size_ - k, piece, Buffer::output));
}

void build_ring_all_reduce(const GroupReduction& what, const PlanLimits& limits,
                           PlanBuilder& plan) {
  Ring ring(what, ring_segment(what.result.count, what.group.size(), what.type, limits), plan);
  for (uint64_t k = 0; k < ring.steps(); ++k) {
    for (uint64_t piece = 0; piece < ring.pieces(); ++piece) ring.reduce_step(k, piece);
  }
  for (uint64_t k = 0; k < ring.steps(); ++k) {
    for (uint64_t piece = 0; piece < ring.pieces(); ++piece) ring.gather_step(k, piece);
  }
}

}  // namespace r2ccl
