// Scenarios as TOML: what a person writes to try a fault, and what a seed is printed as.
#pragma once

#include <string>

#include "base/status.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::tools {

// An error names the line, the key, and what may stand there.
Result<sim::Scenario> parse_scenario(const std::string& text, const std::string& file_name);
Result<sim::Scenario> read_scenario(const std::string& path);
// parse_scenario() gives the same scenario back.
std::string to_toml(const sim::Scenario& scenario);

}  // namespace r2ccl::tools
