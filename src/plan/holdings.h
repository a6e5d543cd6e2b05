// Which elements the buffers of a rank hold before a collective and after it: the meaning of each
// collective. Algorithms find their elements by it, and the checker proves plans against it.
//
// The elements of a collective's vector have numbers that all ranks agree on. AllReduce, Reduce and
// Broadcast have one vector of `count` elements. AllGather and ReduceScatter have a vector of all
// blocks, one after another. Gather, Scatter and AllToAll, where only the two ranks of a pair know
// how long its block is, have room for kBlockElementsMax elements in each block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace r2ccl {

// Elements [begin, begin + count) of the vector.
struct Range {
  uint64_t begin = 0;
  uint64_t count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// A range at a place of a buffer.
struct Holding {
  Range range;
  uint64_t offset = 0;
  Rank of = kNoRank;  // the rank whose input it is; kNoRank: the reduction of all inputs
  friend bool operator==(const Holding&, const Holding&) = default;
};

// In place, the buffers of a rank lie in one piece of memory, and begin at these elements of it.
struct Overlay {
  uint64_t input_at = 0;
  uint64_t output_at = 0;
};
Overlay overlay_of(const PlanKey& key, Rank rank);

// The elements of each buffer, as far as the rank uses it.
struct Extents {
  uint64_t input_count = 0;
  uint64_t output_count = 0;
};
// Cost: constant unless blocks are unequal.
Extents extents_of(const PlanKey& key, Rank rank);

// The contents of a rank's buffers, by ascending elements. Empty ones are left out.
struct Contents {
  std::vector<Holding> input;   // before
  std::vector<Holding> output;  // after
  Extents extents;
  Overlay overlay;
};

Contents contents_of(const PlanKey& key, Rank rank);

// Returns block `rank` of the vector of a collective with blocks (not of all_to_all).
Range block_of(const PlanKey& key, Rank rank);
// Returns the block that `from` sends to `to` in an all_to_all; `self` is one of them.
Range pair_block_of(const PlanKey& key, Rank from, Rank to, Rank self);
// Returns the elements of the whole vector (not of gather, scatter and all_to_all).
uint64_t vector_count(const PlanKey& key);

// Returns the elements of a block of `layout`: key.blocks or key.received.
uint64_t count_in(const PlanKey& key, const BlockLayout& layout, Rank rank);
// Returns whether ranks do not agree on the counts of all blocks: each pair of ranks has its own.
bool has_own_counts(const PlanKey& key);
// Returns the elements of all blocks that this rank exchanges with `peer` in one direction, in a
// call that has_own_counts().
uint64_t count_with(const PlanKey& key, Rank self, Rank peer, bool sends);

inline constexpr int32_t kAllToAllRanksMax = 4096;
inline constexpr uint64_t kBlockElementsMax = uint64_t{1} << 40;

// Returns the place of a range in memory that `holdings` describe. All of it must be there, in one
// piece.
uint64_t offset_of(std::span<const Holding> holdings, const Range& range);
// Returns whether all of the range is there, in one piece.
bool holds(std::span<const Holding> holdings, const Range& range);

}  // namespace r2ccl
