// A simulated run as a picture: a row for each host's operations and for each of its NICs.
#pragma once

#include <string>

#include "sim/trial/trial.h"

namespace r2ccl::tools {

std::string draw_trial(const sim::Scenario& scenario, const sim::TrialResult& result,
                       const std::string& title);

}  // namespace r2ccl::tools
