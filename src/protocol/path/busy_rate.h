// The rate of a connection while bytes were on their way, as the kernel counts both. A process that
// waits for a core does not count, unlike in the samples of PathModel. Pure.
//
// The kernel's own delivery rate (`tcpi_delivery_rate`) keeps the highest sample, so it believes
// the burst that a token bucket lets through.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace r2ccl {

class BusyRate {
 public:
  // The kernel counts busy time in ticks of 1 to 10 ms, right on average.
  static constexpr TimeNs kPeriod = 20 * kMillisecond;

  // `acknowledged` and `busy` count from the connection's start.
  // `unlimited`: the rate of a burst that the network did not limit, or 0.
  void sample(uint64_t acknowledged, TimeNs busy, double unlimited = 0) {
    latest_ = acknowledged;
    unlimited_ = unlimited;
    if (busy < busy_ + kPeriod) return;
    if (acknowledged > acknowledged_) bytes_per_ns_ = over_a_period(busy - busy_);
    acknowledged_ = acknowledged;
    busy_ = busy;
  }
  // A new connection counts from 0. The rate stays.
  void restart() {
    acknowledged_ = latest_ = 0;
    busy_ = 0;
  }
  bool known() const { return bytes_per_ns_ > 0; }
  // Returns the rate of the last period, or what the bytes of a period that is not over show: a
  // connection may need minutes for 20 ms of busy time. 0: nothing is known.
  double bytes_per_ns() const { return std::max(bytes_per_ns_, over_a_period(kPeriod)); }
  // Returns the rate of the last burst, 0: the network limited it.
  double burst_bytes_per_ns() const { return unlimited_; }

 private:
  double over_a_period(TimeNs period) const {
    return static_cast<double>(latest_ - acknowledged_) / static_cast<double>(period);
  }

  uint64_t acknowledged_ = 0;  // when the period began
  uint64_t latest_ = 0;        // >= acknowledged_
  TimeNs busy_ = 0;            // when the period began
  double bytes_per_ns_ = 0;
  double unlimited_ = 0;
};

}  // namespace r2ccl
