// The settings of this process: reads and checks the environment, and warns in the log about
// probable mistakes.
#pragma once

#include "base/status.h"
#include "runtime/config/config.h"

namespace r2ccl {

// Returns the settings, and configures the log. The library logs each warning once in a process.
Result<Config> load_settings();

}  // namespace r2ccl
