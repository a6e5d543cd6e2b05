// A forest: spanning trees along which a group carries out an AllReduce. The vector is cut into
// chunks. The partial results of a chunk rise along a tree to its root, and the result comes down
// from the root, mostly along the same tree. A member with d neighbours in the tree sends the chunk
// d times and receives it d times, so degrees divide the work: a slow host is a leaf of most trees.
// The degrees of a tree over p members add up to 2 (p - 1). Private to this folder.
//
// Most trees are caterpillars, a path with leaves beside it, or stars. The members of a path follow
// each other around a ring, and each chunk begins one member further. The messages between two
// ranks are ordered. In these trees almost all that one sends the other either rise or come down,
// so none waits behind one of the other kind. Without leaves it is a ring, with one slow host as a
// leaf it is OptCC's four stages, and stars are an exchange by owners. The trees of `packed` are of
// any form (plan/hosts/packing.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/group.h"
#include "plan/host_rates.h"
#include "plan/hosts/packing.h"
#include "plan/limits.h"
#include "plan/plan_builder.h"

namespace r2ccl {

// A tree as one member sees it. Members are positions of the group.
struct TreeEnd {
  static constexpr uint32_t kNoParent = UINT32_MAX;  // the root's
  uint32_t parent = kNoParent;
  std::vector<uint32_t> children;
  uint64_t depth = 0;   // hops to the root
  uint64_t height = 0;  // of the whole tree
};

// A chunk's two trees, which have the same root.
struct ForestChunk {
  TreeEnd sums;         // partial results rise along it
  TreeEnd results;      // the result comes down along it
  uint64_t weight = 1;  // the chunk's share of a cycle
};

// The chunks of a cycle, as one member sees them. The vector is cut into cycles, and all are alike.
// So many chunks begin at a time: a round. It begins while others rise and come down.
struct Forest {
  std::vector<ForestChunk> chunks;
  uint64_t chunks_of_round = 1;
  uint64_t rounds_rising = 0;  // how many rounds begin while a chunk rises
};

// So much of the vector, relative to the other shares, goes along a path without the slowest
// members: they are leaves.
struct PathShare {
  uint32_t leaves = 0;
  uint64_t share = 1;
};

// So much of the vector, in kShareWeight of the shares of paths, is added by one member and sent to
// all others by another one. Mostly they are the same, the root of a star. Where a host is slow in
// one direction they differ, and the first one sends each result to the second one.
struct StarShare {
  uint32_t collector = 0;
  uint32_t spreader = 0;
  uint64_t share = 0;
};

struct ForestShares {
  std::vector<PathShare> paths;
  std::vector<StarShare> stars;
};
inline constexpr uint64_t kShareWeight = 16384;

// Returns the shares of an algorithm. docs/schedules.md derives those of `nested`, which reach the
// floor for all rates.
ForestShares forest_shares(const TotalRates& rates, Algorithm algorithm);
// Returns how many rounds begin while a chunk rises along a path of so many members.
uint64_t rounds_rising(size_t path);
// The same where the trees are stars or packed ones, and a vector of so many bytes has `rounds` of
// them, which are at least one.
uint64_t rounds_of_exchange(size_t members, uint64_t bytes, uint64_t rounds,
                            const PlanLimits& limits);
// Returns the members by ascending rate.
std::vector<uint32_t> slowest_first(const TotalRates& rates);
// Returns the chunks of a round as the member `self` sees them.
Forest make_forest(const TotalRates& rates, const ForestShares& shares, uint32_t self);
// Returns a cycle of the first `chunks` trees of a packing as the member `self` sees them. Requires
// at least one, and at most as many as there are.
Forest packed_forest(const Packing& packing, size_t chunks, uint32_t self);
// Returns the packing that the algorithm uses among the hosts of a view; null where it uses none.
// `packed` is as `direct` then. To find the trees takes up to 0.1 s, but each thread remembers its
// last ones.
std::shared_ptr<const Packing> packing_for(const View& view, Algorithm algorithm);

// Returns the time of the busiest NIC by `direct` where a NIC reaches only its own rail, as
// Packing::load. The largest number stands for hosts without a common rail. Links leave a narrow
// rail to those that have no other, but not all of it: they come half the way from proportions to
// the best division, as measured (docs/schedules.md). Takes up to 0.1 s among 64 hosts, but each
// thread remembers its last result. Requires hosts whose rails differ.
uint64_t direct_rail_load(const View& view, const TotalRates& rates);

// The forest of one AllReduce, for a number of elements.
class ForestPlan {
 public:
  // `self`: a position among the members, which are the hosts of the view, or equal ones.
  ForestPlan(const View& view, size_t members, uint32_t self, Algorithm algorithm, uint64_t count,
             DataType type, const PlanLimits& limits);

  const Forest& forest() const { return forest_; }
  // Returns the chunks of all cycles.
  uint64_t chunks() const { return cycles_ * forest_.chunks.size(); }
  // Returns the elements of a chunk of a part of the vector.
  Region chunk_of(const Region& whole, uint64_t chunk) const;

 private:
  Forest forest_;
  uint64_t cycles_ = 0;
  std::vector<uint64_t> ends_;  // of the chunks of a cycle, among their weights
};

// Tells how a member that stands for several ranks gets its input of a chunk, and where its result
// goes.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Returns the place of the member's partial result, to which it adds `additions` times before it
  // sends it.
  virtual Region take_input(uint64_t chunk, size_t additions) = 0;
  virtual void give_result(uint64_t chunk) = 0;
};

// Adds the steps of an AllReduce along a forest. A rank that is no member (`what` is null) has only
// those of `source`, in the order of the member that stands for it.
void build_along_forest(const ForestPlan& forest, const GroupReduction* what, ChunkSource& source,
                        PlanBuilder& plan);
// The same where each member is one rank, whose input lies in what.partial.
void build_forest(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                  PlanBuilder& plan);

}  // namespace r2ccl
