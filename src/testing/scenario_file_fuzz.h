// Fuzzes the text of a scenario. In a header, because no other test needs to link `r2ccl sim`.
#pragma once

#include <string>

#include "base/check.h"
#include "testing/fuzz_text.h"
#include "tools/simulate/scenario_file.h"

namespace r2ccl {

// As the entries of testing/fuzz.h: an accepted scenario comes back from its own text, and an error
// names the file.
inline bool fuzz_scenario_file(std::span<const std::byte> input) {
  const auto scenario = tools::parse_scenario(fuzz_text(input), "f.toml");
  if (!scenario.ok()) {
    const Status& error = scenario.status();
    R2CCL_CHECK(error.code() == Code::invalid_argument);
    R2CCL_CHECK(error.message().starts_with("f.toml:") && error.message().size() > 10);
    return false;
  }
  const auto again = tools::parse_scenario(tools::to_toml(scenario.value()), "f.toml");
  R2CCL_CHECK(again.ok() && again.value() == scenario.value());
  return true;
}

}  // namespace r2ccl
