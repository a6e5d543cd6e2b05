// Bounds of time in the words of errors.
#pragma once

#include <string>

#include "base/clock.h"

namespace r2ccl {

// Returns whole seconds where it can, otherwise milliseconds.
inline std::string duration_text(TimeNs duration) {
  return duration % kSecond == 0 ? std::to_string(duration / kSecond) + " s"
                                 : std::to_string(duration / kMillisecond) + " ms";
}

}  // namespace r2ccl
