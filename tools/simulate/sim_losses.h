// `r2ccl sim losses`: random jobs with a NIC that loses packets; is it named, and only it?
#pragma once

#include "tools/common/command.h"

namespace r2ccl::tools {

void add_sim_losses(CLI::App* sim, Action* action);

}  // namespace r2ccl::tools
