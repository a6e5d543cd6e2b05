// Why a call has its plan: the predicted time of each algorithm, and the floor.
#pragma once

#include <string>

#include "plan/plan.h"

namespace r2ccl::tools {

// Returns a table of the algorithms that an automatic choice considers, the fastest first, and the
// floor (plan/analysis/floor.h).
std::string explain_plan(const PlanKey& key);
// Returns the same as JSON.
std::string explanation_json(const PlanKey& key);

}  // namespace r2ccl::tools
