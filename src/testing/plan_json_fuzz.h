// Fuzzes the JSON form of plans. In a header, because no other test needs nlohmann/json.
#pragma once

#include "base/check.h"
#include "plan/text/plan_text.h"
#include "testing/fuzz_text.h"
#include "tools/plan/plan_json.h"

namespace r2ccl {

// As the entries of testing/fuzz.h: what JSON means is what its text form means.
inline bool fuzz_plan_json(std::span<const std::byte> input) {
  const Result<std::string> text = tools::plan_text_of_json(fuzz_text(input));
  if (!text.ok()) {
    R2CCL_CHECK(text.status().code() == Code::invalid_argument);
    R2CCL_CHECK(text.status().message().size() > 10);
    return false;
  }
  const Result<WholePlan> plan = parse_plan(text.value());
  if (!plan.ok()) return false;
  R2CCL_CHECK(parse_plan(print_plan(plan.value())).value() == plan.value());
  return true;
}

}  // namespace r2ccl
