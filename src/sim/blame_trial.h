// One random job with one or two random faults, and whether its verdicts say what the table of
// docs/blame.md permits: its finest class for each fault, and nobody innocent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace r2ccl {

enum class BlameFault : uint8_t {
  down,
  pull,
  hole,
  hole_tx,
  hole_rx,
  severed,
  rail,       // nothing passes its switch
  host_nics,  // holes in all data NICs of a host; the control network works
  partition,  // of all networks
  slow,
  delay,
  lossy,
  mtu_hole,
  control,
  killed,
  stopped,
};
inline constexpr uint64_t kBlameFaults = 16;
const char* to_string(BlameFault kind);

struct TrialFault {
  BlameFault kind = BlameFault::hole;
  int host = 0;
  int other = 0;  // of a severed pair
  int nic = 0;
  TimeNs at = 0;  // from when all paths are up
};

struct Trial {
  uint64_t seed = 0;
  int hosts = 2;
  int nics = 2;
  bool traffic = true;
  std::vector<TrialFault> faults;
};
Trial random_trial(uint64_t seed);
std::string to_string(const Trial& trial);

struct TrialOutcome {
  std::vector<std::string> innocent;  // verdicts that no fault permits
  std::vector<std::string> coarse;    // faults without their finest verdict, verdicts beyond those
  // From the first path that went down to the verdict, the longest.
  TimeNs slowest = 0;
};
TrialOutcome run(const Trial& trial);

}  // namespace r2ccl
