#include "base/check.h"
#include "plan/analysis/checker.h"
#include "plan/text/plan_text.h"
#include "testing/fuzz.h"
#include "testing/fuzz_text.h"

namespace r2ccl {

bool fuzz_plan_text(std::span<const std::byte> input) {
  const Result<WholePlan> plan = parse_plan(fuzz_text(input));
  if (!plan.ok()) {
    const Status& error = plan.status();
    R2CCL_CHECK(error.code() == Code::invalid_argument);
    R2CCL_CHECK(error.message().starts_with("line ") && error.message().size() > 10);
    return false;
  }
  const Result<WholePlan> again = parse_plan(print_plan(plan.value()));
  R2CCL_CHECK(again.ok() && again.value() == plan.value());
  const Status proved = check_plan(plan.value().keys, plan.value().plans);
  R2CCL_CHECK(proved.ok() == proved.message().empty());
  return true;
}

}  // namespace r2ccl
