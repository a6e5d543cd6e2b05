// What the demo breaks and mends, and when: pure.
#pragma once

#include <string>
#include <vector>

#include "tools/lab/lab_spec.h"

namespace r2ccl::tools {

struct DemoStep {
  double at_s = 0;
  std::string announcement;
  std::string remark;       // what to expect; may be empty
  std::string fault_label;  // of a fault; empty: a repair
  std::vector<LabTarget> targets;
  LabFault fault;
};

struct DemoSchedule {
  std::vector<DemoStep> steps;  // in time
  double end_s = 0;
  int victim_host = 0;
};

// Link down, silent black hole, one NIC at a tenth of its rate, two NICs at once; each lasts
// `fault_s` and is mended for `mend_s`.
DemoSchedule make_demo_schedule(int hosts, int nics, double fault_s, double mend_s);

}  // namespace r2ccl::tools
