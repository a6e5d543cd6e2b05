// Runs AllReduces back to back on a healthy network, from a cold start, and compares their times
// with the least time in which the NICs can carry their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace r2ccl::sim {

struct RateTrial {
  int hosts = 2;
  int nics = 1;
  uint64_t mbit = 10'000;             // the rate of each NIC
  TimeNs latency = 5 * kMicrosecond;  // one way
  uint64_t bytes = 32 * 1024 * 1024;
  int operations = 7;  // > 3: the first ones are the cold start
};
// Returns all combinations of 2 and 4 hosts, 1 to 4 NICs, 250 Mbit/s to 100 Gbit/s and 5 and 50 us.
std::vector<RateTrial> all_rate_trials();
std::string describe(const RateTrial& trial);

struct RateOutcome {
  std::string error;  // empty: all operations ended, and all elements were right
  // The time of each operation, divided by the least time: that of its payload on the line, plus
  // the one-way latency of each step of a ring.
  std::vector<double> ratios;
  double median() const;  // of the operations after the third
};
RateOutcome run(const RateTrial& trial);

}  // namespace r2ccl::sim
