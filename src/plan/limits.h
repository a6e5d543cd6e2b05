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
  // A forest is half idle in its first and in its last round.
  uint64_t rounds_per_forest = 128;
  // An exchange by owners has about so many bytes of the vector on their way up at a time, and as
  // many on their way down. forest_limits() sets it from the rate of a host.
  uint64_t bytes_rising = 0;

  // Hierarchical AllReduce: a column has at least this many bytes. More columns than one cost
  // messages, and save time only when a leader has more work in memory than the NICs have (2 hosts
  // of 4 ranks and four 250 Mbit/s NICs on two cores: one column is faster than two or four up to 1
  // MB, and from 2 MB on they are equal within the noise).
  uint64_t column_bytes_min = 1024 * 1024;
  // Reduce and ReduceScatter: partial results that were sent keep their place until this many bytes
  // wait for their acknowledgement, which 100 Gbit/s carry in 300 us. A ring also has no more of
  // them at a time.
  uint64_t spare_scratch_bytes = 4 * 1024 * 1024;
  // A reduction in rank order takes so many messages of one segment before it begins the next one,
  // so that with more ranks than these not all owners wait for the same few senders. The staging
  // pool has a slot for each.
  uint64_t messages_per_segment = 32;
  // The most `wide` memory of a plan, in bytes of float32. Plans of longer vectors use it in turn:
  // it holds sixteen of the largest segments, of which the staging pool has two for each.
  uint64_t wide_bytes = 8 * 1024 * 1024;
};

inline constexpr PlanLimits kPlanLimits{};

}  // namespace r2ccl
