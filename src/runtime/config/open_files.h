// Whether this process may open enough files for a rank. A shortage in the middle of a start looks
// like a broken network to the other ranks, and often to this one.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace r2ccl {

// Returns an error that names the limit and the need.
Status check_open_files(int32_t rank_count);

}  // namespace r2ccl
