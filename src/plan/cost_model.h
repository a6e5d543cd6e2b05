// Predicts the time of each algorithm of a collective, as the LogGP model does (Alexandrov,
// Ionescu, Schauser, Scheiman 1995): hops, messages and bytes on the critical path, each by its
// measured cost. It differs in two points. Memory and network have costs of their own; and where
// one rank of a host works for all, other costs count than where all ranks work at once, because
// these share cores and NICs.
//
// Integers only, so that all ranks get the same result on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace r2ccl {

// Returns the algorithms that this call can have, in the order of their preference at equal times.
std::span<const Algorithm> algorithms_of(const PlanKey& key,
                                         const PlanLimits& limits = kPlanLimits);

// Returns those that an automatic choice considers. Where two hosts share no rail, only a ring can
// keep them apart (plan/ring_order.h). Equal hosts have no forests (docs/schedules.md).
std::vector<Algorithm> candidates_of(const PlanKey& key, const PlanLimits& limits = kPlanLimits);

// Requires an algorithm of the call, and more than one rank. Returns the predicted time of the call
// in ns.
uint64_t predicted_ns(const PlanKey& key, Algorithm algorithm,
                      const PlanLimits& limits = kPlanLimits);

}  // namespace r2ccl
