// `r2ccl sim plan`: the time of a collective's plan on a network of hosts, NICs and rails, by the
// fluid simulator.
#pragma once

#include "tools/common/command.h"

namespace r2ccl::tools {

void add_sim_plan(CLI::App* sim, Action* action);

}  // namespace r2ccl::tools
