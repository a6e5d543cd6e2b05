// The settings of this process: the environment, read and checked, with warnings in the log about
// what a person has probably not meant.
#pragma once

#include "base/status.h"
#include "runtime/config/config.h"

namespace r2ccl::api {

// Also configures the log. The library logs each warning once in a process.
Result<Config> load_settings();

}  // namespace r2ccl::api
