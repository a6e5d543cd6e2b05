// The algorithms behind make_plan: each adds one rank's steps to a builder. Private to this folder.
#pragma once

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/plan_builder.h"

namespace r2ccl {

// Require p >= 2 ranks, and key.count >= 1 except for the barrier.
void build_ring_all_reduce(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan);
void build_halving_doubling(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan);
void build_chain_broadcast(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan);
void build_tree_broadcast(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan);
void build_barrier(const PlanKey& key, PlanBuilder& plan);

// Returns the number of elements in a segment of about `bytes`, within the bounds; at least one.
uint64_t segment_count(uint64_t bytes, DataType type, const PlanLimits& limits);

}  // namespace r2ccl
