// The algorithms behind make_plan: each adds one rank's steps to a builder. Private to this folder.
#pragma once

#include "plan/group.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/plan_builder.h"
#include "plan/transfers.h"

namespace r2ccl {

// AllReduces among a group of at least two ranks, of at least one element.
void build_ring_all_reduce(const GroupReduction& what, const PlanLimits& limits, PlanBuilder& plan);
void build_halving_doubling(const GroupReduction& what, const PlanLimits& limits,
                            PlanBuilder& plan);
void build_recursive_doubling(const GroupReduction& what, const PlanLimits& limits,
                              PlanBuilder& plan);
// One of these.
void build_reduction(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                     PlanBuilder& plan);

// Requires host groups, and at least one element.
void build_hierarchical_all_reduce(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan);
// Returns the number of columns of a hierarchical AllReduce.
uint64_t column_count(const PlanKey& key, const PlanLimits& limits);
// Returns the algorithm of a column among its leaders that takes the least time.
Algorithm reduction_among_leaders(const PlanKey& key, const PlanLimits& limits);

// Returns whether the algorithm moves the chunks of an AllReduce along trees (plan/forest.h).
bool uses_forest(Algorithm algorithm);
// Returns the limits for the chunks of a forest. Half of the bytes that a host receives wait in the
// staging pool for their reduction. So the chunks are so large that the pool holds half of what
// arrives during the way of a credit and a message. They also hold how much is on its way at a
// time.
PlanLimits forest_limits(const PlanKey& key, PlanLimits limits);

// Require host groups, equal blocks and at least one element.
void build_hierarchical_all_gather(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan);
void build_hierarchical_reduce_scatter(const PlanKey& key, const PlanLimits& limits,
                                       PlanBuilder& plan);

// Require p >= 2 ranks, and at least one element except for the barrier.
void build_barrier(const PlanKey& key, PlanBuilder& plan);
Transfers chain_broadcast(const PlanKey& key, Rank self, const PlanLimits& limits);
Transfers tree_broadcast(const PlanKey& key, Rank self, const PlanLimits& limits);
Transfers ring_gather(const PlanKey& key, Rank self, const PlanLimits& limits);
// Exchanges `group` elements of each block at a time. Backwards, so many partial results are open.
Transfers direct_gather(const PlanKey& key, Rank self, uint64_t group, const PlanLimits& limits);
Transfers bruck_gather(const PlanKey& key, Rank self, const PlanLimits& limits);  // equal blocks
Transfers root_gather(const PlanKey& key, Rank self, const PlanLimits& limits);
Transfers root_scatter(const PlanKey& key, Rank self, const PlanLimits& limits);
Transfers exchange_all(const PlanKey& key, Rank self, const PlanLimits& limits);

// Returns the range of each rank as an owner, which adds it in a reduction in rank order: its block
// in a ReduceScatter, otherwise a share of the vector. The shares are such that all hosts of the
// key's view end an exchange among all ranks at the same time. Few elements of a Reduce belong to
// the root alone, and those of an AllReduce to every rank: the ranges are then the same.
std::vector<Range> owned_ranges(const PlanKey& key, const PlanLimits& limits);
// Adds a reduction in rank order. Requires at least two ranks and one element.
void build_in_rank_order(const PlanKey& key, const Contents& contents, const PlanLimits& limits,
                         PlanBuilder& plan);

// Returns whether ranks hold partial results in `wide` memory. Two ranks add only once each.
bool reduces_wide(const PlanKey& key);
// Returns the most elements of that memory.
uint64_t wide_count(const PlanLimits& limits);

// Returns the number of elements in a segment of about `bytes`, within the bounds; at least one.
uint64_t segment_count(uint64_t bytes, DataType type, const PlanLimits& limits);
// Returns the same for a ring over `count` elements.
uint64_t ring_segment(uint64_t count, uint64_t ranks, DataType type, const PlanLimits& limits);

}  // namespace r2ccl
