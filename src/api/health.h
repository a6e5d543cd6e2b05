// The callback for verdicts, as other calls see it.
#pragma once

#include "r2ccl/r2ccl.h"

namespace r2ccl::api {

// Returns whether the caller runs inside the verdict callback of this communicator. A call that
// waits for the end of the callback would then wait for itself.
bool in_verdict_callback(r2cclComm_t handle);

}  // namespace r2ccl::api
