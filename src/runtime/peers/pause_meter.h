// Measures the pauses of the driving thread: the times in which it should have run and did not, or
// had so much work that it must not count that time against its peers.
#pragma once

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"

namespace r2ccl {

class PauseMeter {
 public:
  explicit PauseMeter(const Clock& clock) : clock_(clock) {}

  // A pass begins.
  void begin(TimeNs now) {
    looked_at_ = now;
    TimeNs idle = std::max<TimeNs>(now - std::max(promised_, ended_at_), 0);
    idle += std::exchange(paused_, 0);
    if (idle > limits::kPauseThreshold) total_ += idle;
  }
  // Reads the clock in the middle of a pass, where a stop or a clock step is most likely while
  // there is much work. The next pass begins with the arrived bytes, and counts the pause.
  TimeNs look() {
    const TimeNs now = clock_.now();
    if (now - looked_at_ > kWorkMax) paused_ += now - looked_at_;
    looked_at_ = now;
    return now;
  }
  void end() { ended_at_ = look(); }
  // The next pass is due then, if nothing happens.
  void promise(TimeNs next) { promised_ = next; }

  // Returns whether there was a pause in this pass.
  bool paused() const { return paused_ > 0; }
  // Returns the sum of all pauses before this pass.
  TimeNs total() const { return total_; }
  // Returns when the last pass ended.
  TimeNs ended_at() const { return ended_at_; }

 private:
  // A longer time between two readings of the clock is a pause.
  static constexpr TimeNs kWorkMax = 20 * kMillisecond;

  const Clock& clock_;
  TimeNs looked_at_ = 0;
  TimeNs ended_at_ = 0;
  TimeNs promised_ = kNever;
  TimeNs paused_ = 0;  // in this pass
  TimeNs total_ = 0;
};

}  // namespace r2ccl
