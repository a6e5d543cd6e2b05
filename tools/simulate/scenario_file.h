// Scenarios as TOML: a person writes one to try a fault, and the command prints a seed as one.
#pragma once

#include <string>

#include "base/status.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::tools {

// Returns the scenario. An error names the line, the key, and the permitted values.
Result<sim::Scenario> parse_scenario(const std::string& text, const std::string& file_name);
Result<sim::Scenario> read_scenario(const std::string& path);
// Returns a text from which parse_scenario() gives the same scenario back.
std::string to_toml(const sim::Scenario& scenario);

}  // namespace r2ccl::tools
