// One random job with one or two random faults, and whether its verdicts say what the table of
// docs/blame.md permits: its finest class for each fault, and nobody innocent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

struct BlameTrial {
  Scenario scenario;  // no operations: an AllReduce, again and again, or none
  bool traffic = true;
};
BlameTrial random_blame_trial(uint64_t seed);
std::string describe(const BlameTrial& trial);

struct BlameOutcome {
  std::vector<std::string> innocent;  // verdicts that no fault permits
  std::vector<std::string> coarse;    // faults without their finest verdict, verdicts beyond those
  // From the first path that went down to the verdict, the longest.
  TimeNs slowest = 0;
};
BlameOutcome run(const BlameTrial& trial);

}  // namespace r2ccl::sim
