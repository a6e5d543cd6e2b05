// Runs one random job with one or two random faults, and checks its verdicts against the table of
// docs/blame.md: the finest class for each fault, and no innocent component.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

struct BlameTrial {
  Scenario scenario;  // no operations: an AllReduce in a loop, or none
  bool traffic = true;
};
BlameTrial random_blame_trial(uint64_t seed);
std::string describe(const BlameTrial& trial);

struct BlameOutcome {
  std::vector<std::string> innocent;  // verdicts that no fault permits
  std::vector<std::string> coarse;    // missing finest verdicts, and verdicts beyond the finest
  std::vector<std::string> apart;     // NICs on which the verdicts and the plans disagree
  // The longest time from a fault's first path down to its verdict.
  TimeNs slowest = 0;
};
BlameOutcome run(const BlameTrial& trial);

}  // namespace r2ccl::sim
