// The clock of one machine: virtual time, but for suspensions, which it may not count, and leaps.
// Those may come between any two instructions; so a leap can wait for the n-th look at the clock,
// which is inside a turn of whoever looks.
#pragma once

#include "base/check.h"
#include "base/clock.h"

namespace r2ccl::sim {

class HostClock final : public Clock {
 public:
  explicit HostClock(const Clock& time) : time_(time) {}

  TimeNs now() const override {
    if (leap_ != 0 && --looks_left_ == 0) {
      ahead_ += leap_;
      leap_ = 0;
    }
    return time_.now() + ahead_;
  }
  TimeNs wall() const override { return time_.wall(); }

  // A suspension that this clock slept through. Only while nobody looks at it: it never goes back.
  void set_back(TimeNs duration) { ahead_ -= duration; }
  void leap(TimeNs duration, int looks) {
    R2CCL_CHECK(looks > 0);
    leap_ = duration;
    looks_left_ = looks;
  }
  // The virtual time at which it will show `time`.
  TimeNs to_virtual(TimeNs time) const { return time == kNever ? kNever : time - ahead_; }

 private:
  const Clock& time_;
  mutable TimeNs ahead_ = 0;
  mutable TimeNs leap_ = 0;  // what comes; 0: nothing
  mutable int looks_left_ = 0;
};

}  // namespace r2ccl::sim
