// The rate of a connection while bytes were on their way, as the kernel counts both. A process that
// waits for a core does not count, unlike in the samples of PathModel. Pure.
//
// The kernel's own delivery rate (`tcpi_delivery_rate`) keeps the highest sample, so it believes
// the burst that a token bucket lets through.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace r2ccl {

class BusyRate {
 public:
  // The kernel counts busy time in ticks of 1 to 10 ms, right on average.
  static constexpr TimeNs kPeriod = 20 * kMillisecond;

  // `acknowledged` and `busy` count from the connection's start.
  void sample(uint64_t acknowledged, TimeNs busy) {
    if (busy < busy_ + kPeriod) return;
    if (acknowledged > acknowledged_) {
      bytes_per_ns_ =
          static_cast<double>(acknowledged - acknowledged_) / static_cast<double>(busy - busy_);
    }
    acknowledged_ = acknowledged;
    busy_ = busy;
  }
  // A new connection counts from 0. The rate stays.
  void restart() {
    acknowledged_ = 0;
    busy_ = 0;
  }
  // Returns 0 while it is not known.
  double bytes_per_ns() const { return bytes_per_ns_; }

 private:
  uint64_t acknowledged_ = 0;
  TimeNs busy_ = 0;
  double bytes_per_ns_ = 0;
};

}  // namespace r2ccl
