// The messages of a plan, each with its two ends.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/analysis/plan_timing.h"
#include "plan/text/plan_text.h"

namespace r2ccl::tools {

struct Transfer {
  size_t from = 0;
  size_t to = 0;
  Region source;
  Region target;
  bool reduces = false;
  StepTime sent;
  StepTime received;
};

// Requires a plan that the checker has proved, and its times. Returns the transfers in the order of
// their starts.
std::vector<Transfer> transfers_of(const WholePlan& plan, const PlanTimes& times);

// Returns a picture: a row for each rank, with bars while a transfer leaves it and while one
// arrives, and a line from the start of each transfer to its end. It draws a bounded number of
// transfers, and says so where there are more.
std::string transfers_svg(const WholePlan& plan, const std::vector<Transfer>& transfers,
                          const std::string& title);

}  // namespace r2ccl::tools
