// What the demo saw, as a value: samples over time, faults and verdicts; and its picture.
#pragma once

#include <string>
#include <vector>

namespace r2ccl::tools {

struct DemoSample {
  double t_s = 0;
  double bus_bytes_per_s = 0;                        // of the all-reduce
  std::vector<std::vector<double>> nic_bytes_per_s;  // sent, by host and NIC
};

struct DemoFault {
  double start_s = 0;
  double end_s = 0;
  std::string label;
};

struct DemoMark {
  double t_s = 0;
  std::string text;
};

struct DemoRecord {
  std::string title;
  std::string summary;
  int victim_host = 0;
  double line_bytes_per_s = 0;  // what all NICs of a host carry together
  std::vector<DemoSample> samples;
  std::vector<DemoFault> faults;
  std::vector<DemoMark> verdicts;
};

// Two charts above each other: the all-reduce's bus bandwidth, and what each NIC of the victim host
// sends, stacked; faults are shaded in both, verdicts are marks.
std::string draw_demo(const DemoRecord& record);

}  // namespace r2ccl::tools
