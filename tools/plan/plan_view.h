// A plan as people and programs read it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/analysis/plan_timing.h"
#include "plan/text/plan_text.h"
#include "tools/plan/plan_transfers.h"

namespace r2ccl::tools {

struct ShownPlan {
  WholePlan plan;
  std::string file;          // that it comes from; empty: it is one of ours
  std::optional<Rank> only;  // show the steps of this rank alone
  Status proof;
  // Empty where the plan is not proved.
  PlanTimes times;
  std::vector<Transfer> transfers;
};

ShownPlan prove_and_time(WholePlan plan, const std::string& file, std::optional<Rank> only);

// Returns a table of the steps of each rank, one of the transfers, the totals, and the checker's
// answer.
std::string describe_plan(const ShownPlan& shown);

// Returns the same as JSON.
std::string plan_json(const ShownPlan& shown);

// Returns a picture of the transfers. Requires a plan that is proved.
std::string plan_svg(const ShownPlan& shown);

}  // namespace r2ccl::tools
