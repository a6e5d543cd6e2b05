// A simulated run as JSON, for programs that read it.
#pragma once

#include <string>

#include "sim/trial/trial.h"

namespace r2ccl::tools {

// Returns the violations, the counters and, with notes, the events with their times; times in ms
// since the job's begin. docs/simulation.md has the fields.
std::string trial_json(const sim::TrialResult& result);

}  // namespace r2ccl::tools
