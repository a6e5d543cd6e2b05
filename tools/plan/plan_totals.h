// The cost of a plan, in numbers that do not depend on a network.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/text/plan_text.h"

namespace r2ccl::tools {

struct RankTotals {
  uint64_t messages_sent = 0;
  uint64_t bytes_sent = 0;
};

struct PlanTotals {
  std::vector<RankTotals> ranks;
  uint64_t messages = 0;
  // The most messages in a row of which each one can only start after the one before has arrived.
  uint64_t hops = 0;
};

// Requires a plan that the checker has proved.
PlanTotals totals_of(const WholePlan& plan);

}  // namespace r2ccl::tools
