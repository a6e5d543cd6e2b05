// A picture of a simulated plan: how much of its bandwidth each host uses, over time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/fluid/fluid.h"

namespace r2ccl::tools {

// Sums up the bytes that each host sends and receives in equal parts of the time.
class UsageRecorder final : public sim::FluidRecorder {
 public:
  UsageRecorder(size_t hosts, double time_s);
  void carried(uint32_t from_host, uint32_t to_host, double begin_s, double end_s,
               double bytes) override;

  static constexpr size_t kParts = 200;
  using Parts = std::vector<double>;  // bytes in each part of the time
  const std::vector<Parts>& sent() const { return sent_; }
  const std::vector<Parts>& received() const { return received_; }
  double time_s() const { return time_s_; }

 private:
  const double time_s_;
  std::vector<Parts> sent_;
  std::vector<Parts> received_;
};

// Draws a row for each direction of each host, of which it shows the first ones. The darker a
// place, the more of the rate of a whole host, in bytes a second, is in use.
std::string draw_usage(const UsageRecorder& usage, double host_rate, const std::string& title);

}  // namespace r2ccl::tools
