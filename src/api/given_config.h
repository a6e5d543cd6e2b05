// The caller's r2cclConfig_t, laid over what the environment says.
#pragma once

#include "base/status.h"
#include "r2ccl/r2ccl.h"
#include "runtime/config/config.h"

namespace r2ccl::api {

// Reads `given->size` bytes, however many fields the caller's version of the struct has, and sets
// what it sets in `config`. An error names the field.
Status apply_config(const r2cclConfig_t& given, Config* config);

}  // namespace r2ccl::api
