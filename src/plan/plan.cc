#include "plan/plan.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/hash.h"
#include "plan/algorithms.h"
#include "plan/cost_model.h"
#include "plan/forest.h"
#include "plan/holdings.h"
#include "plan/plan_builder.h"
#include "plan/ring_order.h"
#include "plan/transfers.h"

namespace r2ccl {

uint64_t plan_hash(const PlanKey& key) {
  uint64_t counts = has_own_counts(key) ? 1 : 0;
  if (counts == 0) {
    for (const uint64_t count : key.blocks.counts) counts = hash_of({counts, count});
  }
  return hash_of({static_cast<uint64_t>(key.collective),
                  static_cast<uint64_t>(choose_algorithm(key)), static_cast<uint64_t>(key.type),
                  static_cast<uint64_t>(key.op), static_cast<uint64_t>(key.rank_count),
                  static_cast<uint64_t>(key.root.value()), key.count, counts, key.hosts.hash(),
                  key.view.hash(), key.reproducible ? 1ULL : 0ULL});
}

namespace {

bool can_have(std::span<const Algorithm> algorithms, Algorithm wanted) {
  return std::ranges::find(algorithms, wanted) != algorithms.end();
}

}  // namespace

namespace {

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

}  // namespace

bool reduces_in_rank_order(const PlanKey& key) {
  return key.reproducible && reduces(key.collective) && !is_integer(key.type);
}

bool reduces_wide(const PlanKey& key) {
  return reduces(key.collective) && key.rank_count > 2 && has_wide_form(key.type, key.op);
}

uint64_t wide_count(const PlanLimits& limits) {
  return limits.wide_bytes / sizeof(float);
}

Algorithm choose_algorithm(const PlanKey& key, const PlanLimits& limits) {
  if (reduces_in_rank_order(key)) return Algorithm::direct;
  const std::span<const Algorithm> algorithms = algorithms_of(key, limits);
  if (can_have(algorithms, key.algorithm)) return key.algorithm;
  if (algorithms.size() == 1 || key.rank_count == 1) return algorithms.front();
  const std::vector<Algorithm> candidates = candidates_of(key, limits);
  Algorithm best = candidates.front();
  uint64_t least = UINT64_MAX;
  for (const Algorithm each : candidates) {
    const uint64_t time = predicted_ns(key, each, limits);
    if (time < least) best = each;
    least = std::min(least, time);
  }
  return best;
}

uint64_t segment_count(uint64_t bytes, DataType type, const PlanLimits& limits) {
  // Round up to whole cache lines, so that neighbouring segments share none.
  constexpr uint64_t kLine = 64;
  const uint64_t lines = (bytes + kLine - 1) / kLine * kLine;
  const uint64_t clamped = std::clamp(lines, limits.segment_bytes_min, limits.segment_bytes_max);
  return std::max<uint64_t>(clamped / size_of(type), 1);
}

void build_reduction(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                     PlanBuilder& plan) {
  switch (algorithm) {
    case Algorithm::ring:
      return build_ring_all_reduce(what, limits, plan);
    case Algorithm::halving_doubling:
      return build_halving_doubling(what, limits, plan);
    case Algorithm::recursive_doubling:
      return build_recursive_doubling(what, limits, plan);
    case Algorithm::direct:
    case Algorithm::nested:
    case Algorithm::split:
    case Algorithm::recursive_split:
    case Algorithm::leaf:
    case Algorithm::packed:
      return build_forest(what, algorithm, limits, plan);
    case Algorithm::automatic:
    case Algorithm::hierarchical:
      break;
  }
  R2CCL_CHECK(false);
}

namespace {

Group all_ranks(const PlanKey& key, Rank self, Algorithm algorithm) {
  Group group;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) group.ranks.emplace_back(rank);
  group.self = static_cast<uint32_t>(self.value());
  if (algorithm != Algorithm::ring) return group;
  group.ranks = ranks_in_ring_order(key);
  group.self = static_cast<uint32_t>(std::ranges::find(group.ranks, self) - group.ranks.begin());
  return group;
}

void build_all_reduce(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  const Region input{Buffer::input, 0, key.count};
  const Algorithm algorithm = choose_algorithm(key, limits);
  // A tree of hosts begins and ends at a leader of each.
  const bool shares_hosts = !key.hosts.empty() && uses_forest(algorithm);
  if (algorithm == Algorithm::hierarchical || shares_hosts) {
    return build_hierarchical_all_reduce(key, limits, plan);
  }
  const Region result{Buffer::output, 0, key.count};
  GroupReduction what{all_ranks(key, plan.rank(), algorithm), result, input, key.type, {}};
  if (!uses_forest(algorithm)) return build_reduction(what, algorithm, limits, plan);
  what.view = key.view;
  build_reduction(what, algorithm, forest_limits(key, limits), plan);
}

void build_broadcast(const PlanKey& key, const Contents& contents, const PlanLimits& limits,
                     PlanBuilder& plan) {
  const bool chain = choose_algorithm(key, limits) == Algorithm::ring;
  const Transfers transfers =
      chain ? chain_broadcast(key, plan.rank(), limits) : tree_broadcast(key, plan.rank(), limits);
  if (key.collective == Collective::broadcast) return distribute(transfers, contents, plan);
  reduce_backwards(transfers, contents, limits, key.type, plan);
}

void build_gather(const PlanKey& key, const Contents& contents, const PlanLimits& limits,
                  PlanBuilder& plan) {
  const bool forward = key.collective == Collective::all_gather;
  const Algorithm algorithm = choose_algorithm(key, limits);
  if (algorithm == Algorithm::hierarchical) {
    return forward ? build_hierarchical_all_gather(key, limits, plan)
                   : build_hierarchical_reduce_scatter(key, limits, plan);
  }
  if (algorithm == Algorithm::recursive_doubling) {
    const Transfers transfers = bruck_gather(key, plan.rank(), limits);
    if (forward) return distribute_from_output(transfers, contents, plan);
    return reduce_backwards_in_scratch(transfers, contents, plan);
  }
  const uint64_t group = plan.widens() ? plan.wide_group() : UINT64_MAX;
  const Transfers transfers = algorithm == Algorithm::ring
                                  ? ring_gather(key, plan.rank(), limits)
                                  : direct_gather(key, plan.rank(), group, limits);
  if (forward) return distribute(transfers, contents, plan);
  reduce_backwards(transfers, contents, limits, key.type, plan);
}

// A single input is its own sum, its own average and all blocks.
void copy_all(const Contents& contents, PlanBuilder& plan) {
  for (const Holding& held : contents.output) {
    plan.copy({Buffer::input, offset_of(contents.input, held.range), held.range.count},
              {Buffer::output, held.offset, held.range.count});
  }
}

void build(const PlanKey& key, const Contents& contents, const PlanLimits& limits,
           PlanBuilder& plan) {
  if (reduces_in_rank_order(key)) return build_in_rank_order(key, contents, limits, plan);
  switch (key.collective) {
    case Collective::all_reduce:
      return build_all_reduce(key, limits, plan);
    case Collective::broadcast:
    case Collective::reduce:
      return build_broadcast(key, contents, limits, plan);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return build_gather(key, contents, limits, plan);
    case Collective::gather:
      return distribute(root_gather(key, plan.rank(), limits), contents, plan);
    case Collective::scatter:
      return distribute(root_scatter(key, plan.rank(), limits), contents, plan);
    case Collective::all_to_all:
      return distribute(exchange_all(key, plan.rank(), limits), contents, plan);
    case Collective::barrier:
      return build_barrier(key, plan);
  }
}

// Returns whether all ranks know that the collective moves nothing.
bool is_empty(const PlanKey& key) {
  return key.collective != Collective::barrier && !has_own_counts(key) && vector_count(key) == 0;
}

}  // namespace

RankPlan make_plan(const PlanKey& key, Rank rank, const PlanLimits& limits) {
  R2CCL_CHECK(key.rank_count >= 1);
  R2CCL_CHECK(rank.value() >= 0 && rank.value() < key.rank_count);
  const Contents contents = contents_of(key, rank);
  PlanBuilder plan(rank, key.in_place, contents.overlay,
                   reduces_wide(key) ? wide_count(limits) : 0);
  if (key.rank_count == 1) {
    copy_all(contents, plan);
  } else if (!is_empty(key)) {
    build(key, contents, limits, plan);
  }
  return plan.take();
}

}  // namespace r2ccl
