// A simulated run as JSON, for programs that look at it.
#pragma once

#include <string>

#include "sim/trial/trial.h"

namespace r2ccl::tools {

// What was violated, what was counted, and with notes what happened when; times in ms since the
// job's begin. docs/simulation.md has the fields.
std::string trial_json(const sim::TrialResult& result);

}  // namespace r2ccl::tools
