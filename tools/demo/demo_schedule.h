// The faults and repairs of the demo, with their times: pure.
#pragma once

#include <string>
#include <vector>

#include "tools/lab/lab_spec.h"

namespace r2ccl::tools {

struct DemoStep {
  double at_s = 0;
  std::string announcement;
  std::string remark;       // the expected effect; may be empty
  std::string fault_label;  // names the fault; empty: a repair
  std::vector<LabTarget> targets;
  LabFault fault;
};

struct DemoSchedule {
  std::vector<DemoStep> steps;  // in order of time
  double end_s = 0;
  int victim_host = 0;
};

// Returns: link down, silent black hole, one NIC at a tenth of its rate, two NICs at once. Each
// fault lasts `fault_s`, and the repair after it `mend_s`.
DemoSchedule make_demo_schedule(int hosts, int nics, double fault_s, double mend_s);

}  // namespace r2ccl::tools
