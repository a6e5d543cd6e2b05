// Small limits and costs for the tests of plans, by which a few elements make a plan of many
// segments.
#pragma once

#include "plan/limits.h"
#include "plan/plan_costs.h"

namespace r2ccl {

// Segments of a few elements, and several columns in a hierarchical plan.
inline PlanLimits tiny_limits() {
  PlanLimits limits;
  limits.column_bytes_min = 16;
  limits.segment_bytes_min = 8;
  limits.segment_bytes_max = 24;
  return limits;
}

// With these and tiny_limits(), hierarchical plans of a few elements have each algorithm among the
// hosts.
inline PlanCosts tiny_costs() {
  PlanCosts costs;
  costs.network = {.hop_ns = 200,
                   .message_ns = 0,
                   .kib_ps = 2'500'000,
                   .fan_kib_ps = 2'500'000,
                   .leader_hop_ns = 200,
                   .leader_message_ns = 0,
                   .leader_kib_ps = 2'500'000};
  return costs;
}

}  // namespace r2ccl
