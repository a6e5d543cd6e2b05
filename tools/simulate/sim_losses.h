// `r2ccl sim losses`: runs random jobs with a NIC that loses packets, and checks that the verdict
// names this NIC and no other.
#pragma once

#include "tools/common/command.h"

namespace r2ccl::tools {

void add_sim_losses(CLI::App* sim, Action* action);

}  // namespace r2ccl::tools
