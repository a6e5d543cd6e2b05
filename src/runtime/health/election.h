// Elects the rank that decides for the job: it finds the NICs at fault, and how much each can
// carry.
#pragma once

#include <vector>

#include "base/ids.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

// Returns the lowest rank that this rank is connected to, or itself: all further reports must be
// able to reach it. One that is suspended reads them later. Both ends of a link know whether they
// are connected, so two ranks differ only where their links do. `ended`: by rank, true: it has left
// or died.
Rank deciding_rank(const ProgressEngine& engine, const std::vector<bool>& ended);

}  // namespace r2ccl
