// A plan as people and programs read it.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "plan/text/plan_text.h"

namespace r2ccl::tools {

// Returns a table of the steps of each rank, or of `only`, the totals, and the checker's answer.
std::string describe_plan(const WholePlan& plan, std::optional<Rank> only, const Status& proof);

// Returns the plan, its totals and the checker's answer as JSON.
std::string plan_json(const WholePlan& plan, std::optional<Rank> only, const Status& proof);

}  // namespace r2ccl::tools
