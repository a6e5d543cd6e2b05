// Random times between events.
#pragma once

#include <cmath>

#include "sim/fabric/random.h"

namespace r2ccl::sim {

// Returns a time of an exponential distribution.
inline double exponential(Random& random, double mean) {
  const double uniform = static_cast<double>((random.next() >> 11) + 1) * 0x1p-53;  // above 0
  return -std::log(uniform) * mean;
}

}  // namespace r2ccl::sim
