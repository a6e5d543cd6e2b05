// The dissemination barrier (Hensgen, Finkel, Manber 1988): in round k each rank signals the one
// 2^k further on, once it has received every signal of the rounds before. After ceil(log2 p) rounds
// every rank has heard, through others, from every other.
//
// With host groups only the first rank of each host takes part. It waits for the others of its host
// before, and signals them afterwards.
#include <algorithm>
#include <vector>

#include "plan/algorithms.h"

namespace r2ccl {
namespace {

void disseminate(const std::vector<Rank>& ranks, PlanBuilder& plan) {
  const size_t size = ranks.size();
  const auto self = static_cast<size_t>(std::ranges::find(ranks, plan.rank()) - ranks.begin());
  for (size_t distance = 1; distance < size; distance *= 2) {
    plan.signal(ranks[(self + distance) % size]);
    plan.await(ranks[(self + size - distance) % size]);
  }
}

}  // namespace

void build_barrier(const PlanKey& key, PlanBuilder& plan) {
  std::vector<Rank> first;
  if (key.hosts.empty()) {
    for (int32_t rank = 0; rank < key.rank_count; ++rank) first.emplace_back(rank);
    return disseminate(first, plan);
  }
  for (const std::vector<Rank>& host : key.hosts.hosts()) {
    first.push_back(host[0]);
    if (std::ranges::find(host, plan.rank()) == host.end() || plan.rank() == host[0]) continue;
    plan.signal(host[0]);
    plan.await(host[0]);
  }
  const auto own = std::ranges::find(first, plan.rank());
  if (own == first.end()) return;
  const std::vector<Rank>& host = key.hosts.hosts()[static_cast<size_t>(own - first.begin())];
  const std::vector<Rank> others(host.begin() + 1, host.end());
  for (const Rank other : others) plan.await(other);
  disseminate(first, plan);
  for (const Rank other : others) plan.signal(other);
}

}  // namespace r2ccl
