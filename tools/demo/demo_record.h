// The record of a demo as a value: samples over time, faults and verdicts; and its picture.
#pragma once

#include <string>
#include <vector>

namespace r2ccl::tools {

struct DemoSample {
  double t_s = 0;
  double bus_bytes_per_s = 0;                        // the all-reduce's
  std::vector<std::vector<double>> nic_bytes_per_s;  // sent, by host and NIC
};

struct DemoFault {
  double start_s = 0;
  double end_s = 0;
  std::string label;
  double lost_bytes_per_s = 0;  // the lost part of the line rate
  bool expects_verdict = true;  // a slow NIC is not broken
};

struct DemoMark {
  double t_s = 0;
  std::string text;  // in a few words
};

// Bytes per second in consecutive tenths of a second.
struct DemoCurve {
  static constexpr double kBinSeconds = 0.1;
  std::vector<double> bytes_per_s;

  // Spreads `bytes` evenly over the time from `start_s` to `end_s`.
  void add(double start_s, double end_s, double bytes);
};

struct DemoRecord {
  std::string title;     // the result
  std::string subtitle;  // the subject of the measurement
  int victim_host = 0;
  double line_bytes_per_s = 0;  // the rate of all NICs of a host together
  DemoCurve bus;                // all operations; empty if the job did not come to its end
  DemoCurve other;              // the same faults under another library; may be empty
  std::string other_name;
  std::vector<DemoSample> samples;
  std::vector<DemoFault> faults;
  std::vector<DemoMark> verdicts;
};

// Draws two charts, one above the other: the all-reduce's bus bandwidth beside the remaining line
// rate and the other library, and the stacked rates of the victim host's NICs. Both shade the
// faults, and mark verdicts with captions.
std::string draw_demo(const DemoRecord& record);

}  // namespace r2ccl::tools
