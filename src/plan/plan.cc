#include "plan/plan.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"
#include "plan/algorithms.h"
#include "plan/plan_builder.h"

namespace r2ccl {

uint64_t plan_hash(const PlanKey& key) {
  return hash_of({static_cast<uint64_t>(key.collective),
                  static_cast<uint64_t>(choose_algorithm(key)), static_cast<uint64_t>(key.type),
                  static_cast<uint64_t>(key.op), static_cast<uint64_t>(key.rank_count),
                  static_cast<uint64_t>(key.root.value()), key.count, key.hosts.hash()});
}

namespace {

// Returns the number of bytes from which on a ring is faster than halving-doubling. With r = the
// product of rate and latency, a ring hides its latencies when a block is 2 r; that is the switch
// point for powers of two, where both move the same bytes. Otherwise folding moves the vector twice
// more in 2 hops, so they are equal where 2 n / rate = (2 (p - 1) - 2 log2 q - 2) latencies.
uint64_t ring_bytes(uint64_t ranks, const PlanLimits& limits) {
  const uint64_t full_blocks = limits.ring_bytes_per_rank * ranks;
  if (std::has_single_bit(ranks)) return full_blocks;
  const uint64_t rounds = static_cast<uint64_t>(std::bit_width(ranks)) - 1;  // log2 q
  return std::min(full_blocks, limits.ring_bytes_per_rank / 2 * (ranks - 2 - rounds));
}

Algorithm choose_broadcast(const PlanKey& key, uint64_t bytes, const PlanLimits& limits) {
  if (key.algorithm == Algorithm::ring || key.algorithm == Algorithm::halving_doubling) {
    return key.algorithm;
  }
  const auto ranks = static_cast<uint64_t>(key.rank_count);
  return bytes >= limits.chain_bytes_per_rank * ranks ? Algorithm::ring
                                                      : Algorithm::halving_doubling;
}

}  // namespace

Algorithm choose_reduction(uint64_t bytes, uint64_t ranks, const PlanLimits& limits) {
  if (bytes <= limits.recursive_doubling_bytes_max) return Algorithm::recursive_doubling;
  return bytes >= ring_bytes(ranks, limits) ? Algorithm::ring : Algorithm::halving_doubling;
}

Algorithm choose_algorithm(const PlanKey& key, const PlanLimits& limits) {
  const uint64_t bytes = key.count * size_of(key.type);
  if (key.collective == Collective::broadcast) return choose_broadcast(key, bytes, limits);
  const bool is_flat = key.hosts.empty();
  if (key.algorithm == Algorithm::hierarchical ? !is_flat : key.algorithm != Algorithm::automatic) {
    return key.algorithm;
  }
  const bool one_host = key.hosts.hosts().size() == 1;
  const bool few_messages = key.rank_count > 2 && bytes <= limits.one_host_bytes_max;
  if (!is_flat && (!one_host || few_messages)) return Algorithm::hierarchical;
  return choose_reduction(bytes, static_cast<uint64_t>(key.rank_count), limits);
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
    case Algorithm::automatic:
    case Algorithm::hierarchical:
      break;
  }
  R2CCL_CHECK(false);
}

namespace {

Group all_ranks(const PlanKey& key, Rank self) {
  Group group;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) group.ranks.emplace_back(rank);
  group.self = static_cast<uint32_t>(self.value());
  return group;
}

void build_all_reduce(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  const Region input{Buffer::input, 0, key.count};
  // A single input is its own sum and its own average.
  if (key.rank_count == 1) return plan.copy(input, {Buffer::output, 0, key.count});
  const Algorithm algorithm = choose_algorithm(key, limits);
  if (algorithm == Algorithm::hierarchical) {
    return build_hierarchical_all_reduce(key, limits, plan);
  }
  build_reduction({all_ranks(key, plan.rank()), input, key.type}, algorithm, limits, plan);
}

void build_broadcast(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  if (key.rank_count > 1) {
    if (choose_algorithm(key, limits) == Algorithm::ring) {
      build_chain_broadcast(key, limits, plan);
    } else {
      build_tree_broadcast(key, limits, plan);
    }
  }
  // The copy comes last, so that the bytes travel meanwhile.
  if (plan.rank() == key.root) {
    plan.copy({Buffer::input, 0, key.count}, {Buffer::output, 0, key.count});
  }
}

}  // namespace

RankPlan make_plan(const PlanKey& key, Rank rank, const PlanLimits& limits) {
  R2CCL_CHECK(key.rank_count >= 1);
  R2CCL_CHECK(rank.value() >= 0 && rank.value() < key.rank_count);
  PlanBuilder plan(rank, key.in_place);
  switch (key.collective) {
    case Collective::all_reduce:
      if (key.count > 0) build_all_reduce(key, limits, plan);
      break;
    case Collective::broadcast:
      if (key.count > 0) build_broadcast(key, limits, plan);
      break;
    case Collective::barrier:
      if (key.rank_count > 1) build_barrier(key, plan);
      break;
  }
  return plan.take();
}

}  // namespace r2ccl
