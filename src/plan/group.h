// The ranks that carry out one phase of a plan, and the part of the vector that they reduce.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/host_rates.h"
#include "plan/plan.h"

namespace r2ccl {

// Ranks in an order that all of them know. Their positions number them.
struct Group {
  std::vector<Rank> ranks;
  uint32_t self = 0;  // the position of the rank whose plan is built

  uint32_t size() const { return static_cast<uint32_t>(ranks.size()); }
  // Returns the rank at a position, modulo the size.
  Rank at(uint64_t position) const { return ranks[position % ranks.size()]; }
};

// An AllReduce among a group, of a part of the vector. Its last reduction completes the result.
struct GroupReduction {
  Group group;
  Region result;   // the part, in the output
  Region partial;  // the place of this rank's partial result; a ring takes no wide one
  DataType type = DataType::float32;
  View view;  // of a forest: by position
};

// Returns count * part / whole, rounded down. `whole` and `part` are at most 2^32.
uint64_t scaled(uint64_t count, uint64_t part, uint64_t whole);

// Returns part `index` of `parts` nearly equal ones. The first count % parts have one element more.
Region part_of(const Region& whole, uint64_t index, uint64_t parts);

// A part of the vector in nearly equal blocks, each cut into pieces of one segment.
class Blocks {
 public:
  // `segment`: elements.
  Blocks(const Region& whole, uint64_t blocks, uint64_t segment)
      : whole_(whole), blocks_(blocks), segment_(segment) {}

  const Region& whole() const { return whole_; }
  // Returns the number of pieces of the longest block.
  uint64_t pieces() const;
  // Returns the pieces from `first` to before `end` of block 0, as one region.
  Region pieces_between(uint64_t first, uint64_t end) const;
  // Returns a piece of block `block` modulo their number; without elements beyond the block's end.
  Region piece(uint64_t block, uint64_t index, Buffer buffer) const;

 private:
  Region whole_;
  uint64_t blocks_;
  uint64_t segment_;
};

// The largest power of two of a group's ranks: the *core*, among which recursive halving and
// doubling run. Each rank in excess has a partner in the core. In the first pairs (2i, 2i + 1) of
// positions the even rank is in excess: its partner reduces its vector first, and sends it the
// result at the end.
class Core {
 public:
  explicit Core(const Group& group);

  uint32_t size() const { return size_; }
  // Returns whether this rank is in excess, or is the partner of one that is.
  bool in_pair() const { return group_.self < 2 * excess_; }
  bool in_excess() const { return in_pair() && group_.self % 2 == 0; }
  Rank partner() const { return group_.ranks[group_.self ^ 1]; }

  // Return this rank's position in the core, and the rank at a position of the core.
  uint32_t position() const { return in_pair() ? group_.self / 2 : group_.self - excess_; }
  Rank at(uint32_t position) const {
    return group_.ranks[position < excess_ ? 2 * position + 1 : position + excess_];
  }

 private:
  const Group& group_;
  const uint32_t size_;
  const uint32_t excess_;
};

}  // namespace r2ccl
