// The dissemination barrier (Hensgen, Finkel, Manber 1988): in round k each rank signals the one
// 2^k further on, once it has received every signal of the rounds before. After ceil(log2 p) rounds
// every rank has heard, through others, from every other.
#include "plan/algorithms.h"

namespace r2ccl {

void build_barrier(const PlanKey& key, PlanBuilder& plan) {
  const int32_t ranks = key.rank_count;
  const int32_t self = plan.rank().value();
  for (int64_t distance = 1; distance < ranks; distance *= 2) {
    const auto step = static_cast<int32_t>(distance);
    plan.signal(Rank(static_cast<int32_t>((int64_t{self} + step) % ranks)));
    plan.await(Rank(static_cast<int32_t>((int64_t{self} + ranks - step) % ranks)));
  }
}

}  // namespace r2ccl
