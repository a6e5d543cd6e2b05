// The clock of one machine: virtual time, except suspensions, which it may leave out, and clock
// steps. A step may happen between any two instructions, so it can wait for the n-th reading of the
// clock, which is inside a turn of the reader.
#pragma once

#include "base/check.h"
#include "base/clock.h"

namespace r2ccl::sim {

class HostClock final : public Clock {
 public:
  explicit HostClock(const Clock& time) : time_(time) {}

  TimeNs now() const override {
    if (clock_step_ != 0 && --readings_left_ == 0) {
      ahead_ += clock_step_;
      clock_step_ = 0;
    }
    return time_.now() + ahead_;
  }
  TimeNs wall() const override { return time_.wall() + wall_ahead_; }

  // Leaves out a suspension. Requires that no reader runs meanwhile: a reader never sees the clock
  // go back.
  void set_back(TimeNs duration) { ahead_ -= duration; }
  void step_clock(TimeNs duration, int readings) {
    R2CCL_CHECK(readings > 0);
    clock_step_ = duration;
    readings_left_ = readings;
  }
  // Steps the wall clock of this machine alone, as a person or a time service does.
  void step_wall(TimeNs duration) { wall_ahead_ += duration; }
  // Returns the virtual time at which the clock will show `time`.
  TimeNs to_virtual(TimeNs time) const { return time == kNever ? kNever : time - ahead_; }

 private:
  const Clock& time_;
  mutable TimeNs ahead_ = 0;
  TimeNs wall_ahead_ = 0;
  mutable TimeNs clock_step_ = 0;  // the next step; 0: none
  mutable int readings_left_ = 0;
};

}  // namespace r2ccl::sim
