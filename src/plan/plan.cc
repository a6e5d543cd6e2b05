#include "plan/plan.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"
#include "plan/algorithms.h"
#include "plan/holdings.h"
#include "plan/plan_builder.h"
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
                  static_cast<uint64_t>(key.root.value()), key.count, counts, key.hosts.hash()});
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

// Returns whether ranks hold partial results in `wide` memory. Two ranks add only once each.
bool reduces_wide(const PlanKey& key) {
  const bool reduces = key.collective == Collective::all_reduce ||
                       key.collective == Collective::reduce ||
                       key.collective == Collective::reduce_scatter;
  return reduces && key.rank_count > 2 && has_wide_form(key.type, key.op);
}

uint64_t wide_count(const PlanLimits& limits) {
  return limits.wide_bytes / sizeof(float);
}

// For AllGather and ReduceScatter.
Algorithm choose_gather(const PlanKey& key, uint64_t bytes, const PlanLimits& limits) {
  // Backwards, Bruck's algorithm needs the whole vector in scratch memory, or in wide memory.
  const bool fits = bytes <= limits.spare_scratch_bytes &&
                    (!reduces_wide(key) || vector_count(key) <= wide_count(limits));
  const bool bruck_can = key.blocks.counts.empty() && fits;
  const auto known = {Algorithm::ring, Algorithm::direct, Algorithm::recursive_doubling};
  const bool given = std::ranges::find(known, key.algorithm) != known.end();
  if (given && (bruck_can || key.algorithm != Algorithm::recursive_doubling)) return key.algorithm;
  if (bruck_can && bytes <= limits.bruck_bytes_max) return Algorithm::recursive_doubling;
  // Ranks that share a host send less through its NICs in a ring.
  const bool rings =
      !key.hosts.empty() || bytes >= ring_bytes(static_cast<uint64_t>(key.rank_count), limits);
  return rings ? Algorithm::ring : Algorithm::direct;
}

Algorithm choose_all_reduce(const PlanKey& key, uint64_t bytes, const PlanLimits& limits) {
  const bool is_flat = key.hosts.empty();
  const bool given = key.algorithm != Algorithm::automatic && key.algorithm != Algorithm::direct;
  if (key.algorithm == Algorithm::hierarchical ? !is_flat : given) return key.algorithm;
  const bool one_host = key.hosts.hosts().size() == 1;
  const bool few_messages = key.rank_count > 2 && bytes <= limits.one_host_bytes_max;
  if (!is_flat && (!one_host || few_messages)) return Algorithm::hierarchical;
  return choose_reduction(bytes, static_cast<uint64_t>(key.rank_count), limits);
}

}  // namespace

Algorithm choose_reduction(uint64_t bytes, uint64_t ranks, const PlanLimits& limits) {
  if (bytes <= limits.recursive_doubling_bytes_max) return Algorithm::recursive_doubling;
  return bytes >= ring_bytes(ranks, limits) ? Algorithm::ring : Algorithm::halving_doubling;
}

Algorithm choose_algorithm(const PlanKey& key, const PlanLimits& limits) {
  const uint64_t bytes = vector_count(key) * size_of(key.type);
  switch (key.collective) {
    case Collective::all_reduce:
      return choose_all_reduce(key, bytes, limits);
    case Collective::broadcast:
    case Collective::reduce:
      return choose_broadcast(key, bytes, limits);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return choose_gather(key, bytes, limits);
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
    case Collective::barrier:
      break;
  }
  return Algorithm::direct;
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
    case Algorithm::direct:
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
  const Algorithm algorithm = choose_algorithm(key, limits);
  if (algorithm == Algorithm::hierarchical) {
    return build_hierarchical_all_reduce(key, limits, plan);
  }
  const Region result{Buffer::output, 0, key.count};
  build_reduction({all_ranks(key, plan.rank()), result, input, key.type}, algorithm, limits, plan);
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
