// The constants that plans are cut by. All ranks of a job must use the same ones.
#pragma once

#include <cstdint>

namespace r2ccl {

// A segment is one message. Small segments keep the pipeline full and its fill short, large ones
// cost less per byte; both bounds are in bytes of payload.
struct PlanLimits {
  // Also the smallest part that halving-doubling cuts a message into.
  // A message costs the sender, the receiver and the acknowledgement of the order of 10 us of
  // processor between them, whatever its size: below this size they would cost more than the bytes.
  uint64_t segment_bytes_min = 32 * 1024;
  // Staging slots are of this size; at 12.5 GB/s it is still 20 us of transfer.
  uint64_t segment_bytes_max = 256 * 1024;
  // A ring block is cut in at least so many segments (within the bounds above): what hides the
  // latency of a hop (plan/ring.cc has the arithmetic). Four hide more, and cost twice the chunks
  // and acknowledgements: 0.3 of 13.8 ms at 1 MB on 4 hosts x 4 NICs x 250 Mbit/s that share two
  // cores (alternating runs of `r2ccl bench -b 1M` in such a lab).
  uint64_t segments_per_block = 2;
  // A chain of p ranks idles for p - 2 segments while it fills, so 1/128 of a broadcast each.
  uint64_t segments_per_chain = 128;

  // Switch points of Algorithm::automatic, in bytes of the whole vector.
  // AllReduce: a ring from so many bytes per rank on (earlier where the number of ranks is no power
  // of two: choose_algorithm). Twice the product of a rank's rate and the latency of a hop: 120
  // MB/s and 0.3 ms are assumed, measurements have yet to confirm them. Halving-doubling pays the
  // latency 2 log2 p times, a ring 2 (p - 1) times unless its blocks are so large that they hide
  // it.
  uint64_t ring_bytes_per_rank = 96 * 1024;
  // Broadcast: a chain from so many bytes per rank on. The tree's root sends everything log2 p
  // times, the chain's only once but over p - 1 hops.
  uint64_t chain_bytes_per_rank = 32 * 1024;
};

inline constexpr PlanLimits kPlanLimits{};

}  // namespace r2ccl
