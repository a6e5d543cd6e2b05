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

  // Returns the mean from `start_s` to `end_s`, of whole bins; 0 without one.
  double mean(double start_s, double end_s) const;
  // Spreads `bytes` evenly over the time from `start_s` to `end_s`.
  void add(double start_s, double end_s, double bytes);
};

struct DemoRecord {
  std::string title;     // the result
  std::string subtitle;  // the subject of the measurement
  std::string remark;    // about the rate of the NICs; may be empty
  int victim_host = 0;
  double line_bytes_per_s = 0;  // the rate of all NICs of a host together
  DemoCurve bus;                // all operations; empty if the job did not come to its end
  DemoCurve other;              // the same faults under another library; may be empty
  double other_line_bytes_per_s = 0;
  std::string other_name;  // with its rate
  std::vector<DemoSample> samples;
  std::vector<DemoFault> faults;
  std::vector<DemoMark> verdicts;
};

// Draws two charts, one above the other: the all-reduce's bus bandwidth beside the remaining line
// rate and the other library, each in percent of its own line, and the stacked rates of the victim
// host's NICs. Both shade the faults, and mark verdicts with captions.
std::string draw_demo(const DemoRecord& record);

// Returns the share of the line that the job reached while every NIC worked, without the second
// after each change; 0 where nothing is left.
double share_without_faults(const DemoRecord& record);

}  // namespace r2ccl::tools
