// The simulator's time: it stands still while code runs and jumps from event to event.
#pragma once

#include "base/check.h"
#include "base/clock.h"

namespace r2ccl::sim {

class VirtualClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  TimeNs wall() const override { return now_ + wall_offset_; }

  void advance_to(TimeNs time) {
    R2CCL_CHECK(time >= now_);
    now_ = time;
  }
  // The wall clock may jump. Only log lines may notice it.
  void jump_wall(TimeNs by) { wall_offset_ += by; }

 private:
  // Not zero, so that an unset time differs from the start.
  TimeNs now_ = kSecond;
  TimeNs wall_offset_ = 1'700'000'000 * kSecond;
};

}  // namespace r2ccl::sim
