// Fuzzes the import of algorithms in the XML of MSCCL. In a header, because no other test needs
// expat.
#pragma once

#include "base/check.h"
#include "plan/analysis/checker.h"
#include "plan/analysis/plan_timing.h"
#include "plan/text/plan_text.h"
#include "testing/fuzz_text.h"
#include "tools/plan/msccl_import.h"

namespace r2ccl {

// As the entries of testing/fuzz.h: each algorithm becomes a plan, which comes back from its text,
// or has an error that says why not. A plan that is proved has an end.
inline bool fuzz_msccl_xml(std::span<const std::byte> input) {
  const auto check_error = [](const Status& error) {
    R2CCL_CHECK(error.code() == Code::invalid_argument);
    R2CCL_CHECK(error.message().size() > 10);
    return false;
  };
  const Result<tools::MscclAlgorithm> algorithm = tools::parse_msccl(fuzz_text(input));
  if (!algorithm.ok()) {
    R2CCL_CHECK(algorithm.status().message().starts_with("line "));
    return check_error(algorithm.status());
  }
  PlanKey key;
  key.count = 3 * tools::least_count(algorithm.value());
  const Result<WholePlan> plan = tools::import_msccl(algorithm.value(), key);
  if (!plan.ok()) return check_error(plan.status());
  R2CCL_CHECK(parse_plan(print_plan(plan.value())).value() == plan.value());
  if (!check_plan(plan.value().keys, plan.value().plans).ok()) return false;
  plan_times(plan.value().keys[0], plan.value().plans);
  return true;
}

}  // namespace r2ccl
