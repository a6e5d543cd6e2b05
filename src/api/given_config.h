// Applies the caller's r2cclConfig_t on top of the settings from the environment.
#pragma once

#include "base/status.h"
#include "r2ccl/r2ccl.h"
#include "runtime/config/config.h"

namespace r2ccl::api {

// Reads `given->size` bytes, however many fields the caller's version of the struct has, and copies
// the fields that are set to `config`. An error names the field.
Status apply_config(const r2cclConfig_t& given, Config* config);
// Returns whether the caller says that no stranger can know the unique id. Requires a config that
// apply_config() has taken, or null.
bool trusts_id(const r2cclConfig_t* given);

}  // namespace r2ccl::api
