// Tracks the bytes that this host has outstanding through one of its NICs, over all links, and the
// time that they take. Pure.
//
// A path knows only its own bytes. Other links that send through the same NIC queue before and
// between them, and the path is not late for that. Nor may each link fill the NIC's queue as if it
// were alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutant.h"

namespace r2ccl {

class NicQueue {
 public:
  // Requires bytes > 0. `alone`: its path had nothing else outstanding.
  void on_sent(uint64_t bytes, bool alone, TimeNs now) {
    R2CCL_CHECK(bytes > 0);
    if (outstanding_ == 0) {
      if (known_) begin_period(now);
      period_at_ = now - so_far_;
      idle_ += now - idle_since_;
    }
    outstanding_ += bytes;
    busy_paths_ += alone ? 1 : 0;
  }
  // Requires that the bytes were sent. `left`: bytes of its path that are still outstanding.
  void on_delivered(uint64_t bytes, uint64_t left, TimeNs now) {
    if (bytes == 0) return;
    forget(bytes, left);
    delivered_ += bytes;
    if (outstanding_ == 0) idle_since_ = now;
    period_bytes_ += bytes;
    if (now - period_at_ < kPeriod) {
      if (outstanding_ == 0) so_far_ = mutated(Mutant::tune_nic_short) ? 0 : now - period_at_;
      return;
    }
    const double rate = static_cast<double>(period_bytes_) / static_cast<double>(now - period_at_);
    if (so_far_ != 0) {
      rate_ = std::max(rate, rate_);
    } else {
      rate_ = std::max({rate, known_ ? rate_ * kDecay : 0.0, kRateMin});
      known_ = true;
    }
    begin_period(now);
  }
  // Records the loss of all outstanding bytes of a path.
  void on_lost(uint64_t bytes) {
    if (bytes > 0) forget(bytes, 0);
  }

  uint64_t outstanding() const { return outstanding_; }
  size_t busy_paths() const { return busy_paths_; }
  // Returns the bytes that it has ever delivered.
  uint64_t delivered() const { return delivered_; }
  // Returns the time without outstanding bytes since an arbitrary moment before the first ones.
  // After a loss it may count some busy time too.
  TimeNs idle(TimeNs now) const { return idle_ + (outstanding_ == 0 ? now - idle_since_ : 0); }
  // Returns the highest rate that the NIC has recently shown; 0 before the first measurement.
  double bytes_per_ns() const { return known_ ? rate_ : 0; }
  // Returns how long the NIC needs for `bytes`; 0 while no other path's bytes share it, because
  // then the path's own rate is better evidence.
  TimeNs time_of(uint64_t bytes) const {
    if (busy_paths_ < 2 || mutated(Mutant::tune_nic_time)) return 0;
    return static_cast<TimeNs>(static_cast<double>(bytes) / rate_);
  }

  void check_invariants() const {
    R2CCL_CHECK((outstanding_ == 0) == (busy_paths_ == 0));
    R2CCL_CHECK(busy_paths_ <= outstanding_);
    R2CCL_CHECK(rate_ >= kRateMin);
  }

 private:
  void forget(uint64_t bytes, uint64_t left) {
    R2CCL_CHECK(bytes + left <= outstanding_ && busy_paths_ > 0);
    outstanding_ -= bytes;
    busy_paths_ -= left == 0 ? 1 : 0;
  }
  void begin_period(TimeNs now) {
    period_at_ = now;
    period_bytes_ = 0;
    so_far_ = 0;
  }

  static constexpr TimeNs kPeriod = 10 * kMillisecond;
  static constexpr double kDecay = 0.999;
  static constexpr double kRateInitial = 0.00375;  // 3.75 MB/s, until the NIC has shown its rate
  // 10 Mbit/s: a time in which nothing came through, for any reason, is not the NIC's rate.
  static constexpr double kRateMin = 0.00125;

  uint64_t outstanding_ = 0;  // the sum over the paths of this NIC
  size_t busy_paths_ = 0;     // paths with outstanding bytes
  TimeNs period_at_ = 0;      // begin of the period; in it, bytes were always outstanding
  uint64_t period_bytes_ = 0;
  // Busy time of the period before the running one. Where operations are so short that the NIC is
  // never busy for a whole period, the sum of their busy times gives a lower bound of its rate. It
  // is no more, because each busy time contains a delay.
  TimeNs so_far_ = 0;
  double rate_ = kRateInitial;  // >= kRateMin; bytes per ns, a slowly decaying maximum
  bool known_ = false;
  uint64_t delivered_ = 0;
  TimeNs idle_ = 0;        // up to the beginning of the last busy time
  TimeNs idle_since_ = 0;  // the last end of a busy time
};

// The account of each NIC by its name. The empty name has all that uses no data NIC.
using NicQueues = std::map<std::string, NicQueue>;

}  // namespace r2ccl
