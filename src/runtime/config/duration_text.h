// Durations as text, for errors that name a time limit.
#pragma once

#include <string>

#include "base/clock.h"

namespace r2ccl {

// Returns whole seconds if the duration is a multiple of a second, milliseconds otherwise.
inline std::string duration_text(TimeNs duration) {
  return duration % kSecond == 0 ? std::to_string(duration / kSecond) + " s"
                                 : std::to_string(duration / kMillisecond) + " ms";
}

}  // namespace r2ccl
