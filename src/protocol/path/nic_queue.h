// What this host has under way through one of its NICs, over all links, and how long that takes.
// Pure.
//
// A path knows only its own bytes. When other links send through the same NIC they queue before
// and between its own, and it is not late for that; nor may each of them fill the NIC's queue as if
// it were alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"

namespace r2ccl {

class NicQueue {
 public:
  // Requires bytes > 0. `alone`: its path had nothing else under way.
  void on_sent(uint64_t bytes, bool alone, TimeNs now) {
    R2CCL_CHECK(bytes > 0);
    if (outstanding_ == 0) {
      if (known_) begin_period(now);
      period_at_ = now - so_far_;
    }
    outstanding_ += bytes;
    busy_paths_ += alone ? 1 : 0;
  }
  // Requires that the bytes were sent. `left`: what its path still has under way.
  void on_delivered(uint64_t bytes, uint64_t left, TimeNs now) {
    if (bytes == 0) return;
    forget(bytes, left);
    period_bytes_ += bytes;
    if (now - period_at_ < kPeriod) {
      if (outstanding_ == 0) so_far_ = now - period_at_;
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
  // All that a path had under way.
  void on_lost(uint64_t bytes) {
    if (bytes > 0) forget(bytes, 0);
  }

  uint64_t outstanding() const { return outstanding_; }
  size_t busy_paths() const { return busy_paths_; }
  // The most that the NIC has shown of late; 0 before it has shown anything.
  double bytes_per_ns() const { return known_ ? rate_ : 0; }
  // How long the NIC needs for so much; nothing while no other path's bytes are in the way, for
  // then a path's own rate says more.
  TimeNs time_of(uint64_t bytes) const {
    if (busy_paths_ < 2) return 0;
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
  // 10 Mbit/s: a time in which nothing came through, for whatever reason, is not the NIC's rate.
  static constexpr double kRateMin = 0.00125;

  uint64_t outstanding_ = 0;  // the sum over the paths of this NIC
  size_t busy_paths_ = 0;     // of these, paths with outstanding bytes
  TimeNs period_at_ = 0;      // of time in which something was always under way
  uint64_t period_bytes_ = 0;
  // Of the period, before the running busy time. Where operations are so short that the NIC is
  // never busy for a whole period, their busy times together show how fast it is at least; no more,
  // because each has a delay in it.
  TimeNs so_far_ = 0;
  double rate_ = kRateInitial;  // >= kRateMin; bytes per ns, a slowly decaying maximum
  bool known_ = false;
};

}  // namespace r2ccl
