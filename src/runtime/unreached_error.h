// The errors of a rank whose time to start is up: it has not reached all others, or others do not
// reach each other.
#pragma once

#include "base/status.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

// Requires that some links are not ready.
Status unreached_error(RankRuntime& runtime);

// Requires that the costs are not agreed.
Status unmeasured_error(const RankRuntime& runtime);

}  // namespace r2ccl
