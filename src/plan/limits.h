// The constants that set the sizes in a plan. All ranks of a job must use the same ones.
#pragma once

#include <cstdint>

namespace r2ccl {

// A segment is one message. Small segments keep the pipeline full and its fill short; large ones
// cost less per byte. Both bounds are in bytes of payload.
struct PlanLimits {
  // Also the smallest part that halving-doubling cuts a message into. A message costs the sender,
  // the receiver and the acknowledgement about 10 us of processor time together, at any size. Below
  // this size a message would cost more than its bytes.
  uint64_t segment_bytes_min = 32 * 1024;
  // Staging slots are of this size; at 12.5 GB/s it is still 20 us of transfer.
  uint64_t segment_bytes_max = 256 * 1024;
  // A ring block has at least this many segments (within the bounds above), which hide the latency
  // of a hop (plan/ring.cc has the arithmetic). Four hide more, and cost twice the chunks and
  // acknowledgements: 0.3 of 13.8 ms at 1 MB on 4 hosts x 4 NICs x 250 Mbit/s that share two cores
  // (alternating runs of `r2ccl bench -b 1M` in such a lab).
  uint64_t segments_per_block = 2;
  // A chain of p ranks idles for p - 2 segments while it fills, so a segment is 1/128 of a
  // broadcast.
  uint64_t segments_per_chain = 128;

  // Switch points of Algorithm::automatic, in bytes of the whole vector.
  //
  // AllReduce: recursive doubling up to this size. It takes 0.6 to 0.9 of the time of
  // halving-doubling from 8 B to 4 KB (2 to 16 ranks over loopback, 2 and 4 hosts of one unshaped
  // or four 250 Mbit/s NICs; 8 ranks at 8 B: 1.0). At 16 KB the bytes of the NICs count, and
  // neither is better everywhere. Sends this small are copied (limits::kBufferedSendBytesMax), so
  // an exchange in place waits for no acknowledgement.
  uint64_t recursive_doubling_bytes_max = 8 * 1024;
  // AllReduce: a ring from this many bytes per rank on (earlier where the number of ranks is no
  // power of two: choose_algorithm). This is twice the product of a rank's rate and the latency of
  // a hop. The figure assumes 120 MB/s and 0.3 ms, which measurements have yet to confirm.
  // Halving-doubling pays the latency 2 log2 p times. A ring pays it 2 (p - 1) times unless its
  // blocks are large enough to hide it.
  uint64_t ring_bytes_per_rank = 96 * 1024;
  // AllReduce among three or more ranks of one host: hierarchical up to this size. It has 2 (p - 1)
  // messages where recursive doubling has p log2 p, and takes 0.2 to 1.0 of the flat plans' time
  // from 8 B to 128 KB (3 to 32 ranks on two cores). From 256 KB on neither is better everywhere:
  // the leader handles all bytes. Two ranks exchange in one hop, and a leader needs two.
  uint64_t one_host_bytes_max = 128 * 1024;
  // Hierarchical AllReduce: a column has at least this many bytes. More columns than one cost
  // messages, and save time only when a leader has more work in memory than the NICs have (2 hosts
  // of 4 ranks and four 250 Mbit/s NICs on two cores: one column is faster than two or four up to 1
  // MB, and from 2 MB on they are equal within the noise).
  uint64_t column_bytes_min = 1024 * 1024;
  // AllGather and ReduceScatter: Bruck's algorithm up to this many bytes of the whole vector; above
  // them each rank sends to each other one, and from the ring's switch point on it is a ring.
  uint64_t bruck_bytes_max = 8 * 1024;
  // Reduce and ReduceScatter: partial results that were sent keep their place until this many bytes
  // wait for their acknowledgement, which 100 Gbit/s carry in 300 us. A ring also has no more of
  // them at a time.
  uint64_t spare_scratch_bytes = 4 * 1024 * 1024;
  // The most `wide` memory of a plan, in bytes of float32. Plans of longer vectors use it in turn:
  // it holds sixteen of the largest segments, of which the staging pool has two for each.
  uint64_t wide_bytes = 8 * 1024 * 1024;
  // Broadcast and Reduce: a chain from this many bytes per rank on. The tree's root sends
  // everything log2 p times, the chain's only once but over p - 1 hops.
  uint64_t chain_bytes_per_rank = 32 * 1024;
};

inline constexpr PlanLimits kPlanLimits{};

}  // namespace r2ccl
