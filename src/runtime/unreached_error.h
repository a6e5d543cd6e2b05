// The error of a rank that has not reached all others when its time to start is up.
#pragma once

#include "base/status.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

// Requires that some links are not ready.
Status unreached_error(RankRuntime& runtime);

}  // namespace r2ccl
