// A forest: spanning trees along which a group carries out an AllReduce. The vector is cut into
// chunks. The partial results of a chunk rise along one tree to its root, and the result comes down
// along another tree with the same root. A rank with d neighbours in the rising tree receives d
// times the chunk, one with d neighbours in the other tree sends it d times (the root included), so
// degrees divide the work: a slow host is a leaf of all trees, and strong ones have many children.
// The degrees of a spanning tree over p ranks add up to 2 (p - 1).
//
// Most published schedules are forests: a ring is paths of which each begins one rank further, and
// an exchange by owners is stars. Private to this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/group.h"
#include "plan/host_rates.h"
#include "plan/limits.h"
#include "plan/plan_builder.h"

namespace r2ccl {

// One tree as one member of the group sees it. Members are positions of the group.
struct TreeEnd {
  static constexpr uint32_t kNoParent = UINT32_MAX;  // the root's
  uint32_t parent = kNoParent;
  uint32_t depth = 0;  // 0: the root
  std::vector<uint32_t> children;
};

// A chunk's two trees as one member sees them.
struct ChunkTrees {
  TreeEnd rising;
  TreeEnd falling;
  uint64_t weight = 1;  // the chunk's share of a round
  uint64_t start = 0;   // the logical time at which the deepest members begin
};

// The chunks of a round, as one member sees them. The vector is cut into rounds, and all rounds are
// alike.
struct Forest {
  std::vector<ChunkTrees> chunks;
  uint64_t height = 0;  // the largest depth of all trees
  // Times, in a unit of the forest's own: of a hop, and from the start of a round to the next one.
  uint64_t hop = 1;
  uint64_t period = 1;
  // Members that only give their input to a chunk begin it when the chunk this many before it has
  // reached them, so that chunks travel in their order.
  uint64_t window = 1;

  // Sets the window to the chunks that are on their way at a time, and some in reserve.
  void set_window();
};

// Trees of any bandwidth: each member's mean degree is the share of the floor's optimum (docs/
// schedules.md). Inner members have `arity` children for each share of work that they get, so the
// depth is logarithmic. `chunks`: of a round; more of them meet the shares better.
Forest spread_forest(const TotalRates& rates, uint32_t self, uint32_t arity, uint64_t chunks);

// Returns the members by ascending rate.
std::vector<uint32_t> slowest_first(const TotalRates& rates);

// Rings of some members, in which the others are leaves.
struct RingShare {
  uint32_t leaves = 0;  // so many of the slowest members are leaves
  uint64_t share = 1;   // of the vector, relative to the other shares
};
// Returns the rings of `split`, `recursive_split` or `leaf`.
std::vector<RingShare> ring_shares(const TotalRates& rates, Algorithm algorithm);
Forest ring_forest(const TotalRates& rates, const std::vector<RingShare>& shares, uint32_t self);

// The forest of one AllReduce, for a number of elements.
class ForestPlan {
 public:
  // `self`: a position among the members, whose rates these are.
  ForestPlan(const TotalRates& rates, uint32_t self, Algorithm algorithm, uint64_t count,
             DataType type, const PlanLimits& limits);

  const Forest& forest() const { return forest_; }
  uint64_t rounds() const { return rounds_; }
  // Returns the elements of a chunk of a part of the vector.
  Region chunk_of(const Region& whole, uint64_t round, uint32_t chunk) const;

 private:
  Forest forest_;
  uint64_t rounds_ = 1;
  std::vector<uint64_t> ends_;  // of the chunks of a round, among their weights
};

// Tells how a member that stands for several ranks gets its input of a chunk, and where its result
// goes.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Returns the place of the member's partial result, to which it adds `additions` times before it
  // sends it.
  virtual Region take_input(uint64_t round, uint32_t chunk, size_t additions) = 0;
  virtual void give_result(uint64_t round, uint32_t chunk) = 0;
};

// Adds the steps of an AllReduce along a forest. A rank that is no member (`what` is null) has only
// those of `source`, in the order of the member that stands for it.
void build_along_forest(const ForestPlan& forest, const GroupReduction* what, ChunkSource& source,
                        PlanBuilder& plan);
// The same where each member is one rank, whose input lies in what.partial.
void build_forest(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                  PlanBuilder& plan);

}  // namespace r2ccl
