// Why a call has its plan: the predicted time of each algorithm, and the floor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace r2ccl::tools {

using Prediction = std::pair<uint64_t, Algorithm>;  // in ns

// Returns the predictions of the algorithms that the call may take, its own first, the others by
// time. A call that can have only one algorithm has none.
std::vector<Prediction> predictions_of(const PlanKey& key);

// Returns a table of these algorithms and the floor (plan/analysis/floor.h).
std::string explain_plan(const PlanKey& key);
// Returns the same as JSON.
std::string explanation_json(const PlanKey& key);

}  // namespace r2ccl::tools
