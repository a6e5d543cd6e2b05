// `r2ccl sim rates`: compares the times of AllReduces on healthy networks of many rates with the
// least time in which the NICs can carry their bytes.
#pragma once

#include "tools/common/command.h"

namespace r2ccl::tools {

void add_sim_rates(CLI::App* sim, Action* action);

}  // namespace r2ccl::tools
