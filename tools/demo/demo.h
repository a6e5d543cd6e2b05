// The demo: a lab, an all-reduce that checks itself, faults in turn, and a picture of the run.
// Where no lab can be made, it falls back to loopback and says so. On a slow or busy machine its
// NICs are slower, so that it still shows the network.
#pragma once

#include <string>

#include "base/status.h"

namespace r2ccl::tools {

struct DemoOptions {
  std::string lab_name = "r2demo";
  int hosts = 4;
  int nics = 4;
  double rate_mbit = 0;  // 0: what the machine drives, measured at the start
  std::string bytes;     // of one operation; empty: in proportion to the rate
  double fault_s = 6;
  double mend_s = 4;
  std::string svg_file = "r2ccl-demo.svg";
  bool loopback = false;  // even where a lab could be made
  std::string json_file;  // the benchmark's results; empty: not kept
};

// Runs the demo and removes everything that it made. Returns the exit status: 0 only if the job
// came to its end and no element was wrong.
Result<int> run_demo(const DemoOptions& options);

}  // namespace r2ccl::tools
