// Decides when to try a failed path again, for ever: often at first, seldom after an hour, at once
// after an event, and with a penalty for a path that keeps failing. Pure.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutant.h"

namespace r2ccl {

class ReconnectBackoff {
 public:
  explicit ReconnectBackoff(bool damping = true) : damping_(damping) {}

  // Records that the path failed; `was_up`: it had carried traffic before.
  void on_down(TimeNs now, bool was_up) {
    if (was_up) {
      penalty_ = penalty_at(now) + 1;
      penalised_at_ = now;
      down_since_ = now;
      next_ = 0;
    }
    // A path that connects but never comes up is no event: it keeps the spacing of its attempts.
    next_ = std::max({next_, now + kFirstTry, held_until()});
  }
  // Records that an attempt has begun.
  void on_attempt(TimeNs now) {
    down_since_ = std::min(down_since_, now);
    next_ = now + spacing(now);
  }
  // Records a link event or a report of the peer: the next attempt need not wait, penalties apart,
  // and the ones after it come as often as after a new failure, because a port may forward a little
  // later.
  void on_hint(TimeNs now) {
    next_ = std::min(next_, std::max(now, held_until()));
    if (down_since_ != kNever) down_since_ = now;
  }

  TimeNs next_attempt() const { return next_; }
  // Returns the penalty, which halves every kHalfLife; 1 is one failure just now.
  double penalty_at(TimeNs now) const {
    const double age = static_cast<double>(now - penalised_at_);
    return penalty_ * std::exp2(-age / static_cast<double>(kHalfLife));
  }

  void check_invariants() const { R2CCL_CHECK(penalty_ >= 0 && next_ >= 0); }

 private:
  // Returns a quarter of the outage's length so far, 25 to 250 ms, in the first minute; after an
  // hour it has grown to 5 s.
  TimeNs spacing(TimeNs now) const {
    const TimeNs age = now - down_since_;
    R2CCL_CHECK(age >= 0);
    if (age <= 60 * kSecond) return std::clamp(age / 4, 25 * kMillisecond, 250 * kMillisecond);
    if (age >= 3600 * kSecond) return 5 * kSecond;
    return 250 * kMillisecond + (age - 60 * kSecond) * 475 / 354'000;
  }
  // Returns until when the penalty holds the path back; 0: it does not. Three failures within about
  // a minute are normal. Beyond that each failure doubles the wait.
  TimeNs held_until() const {
    if (!damping_ || penalty_ <= kForgiven || mutated(Mutant::tune_flap_penalty)) return 0;
    const double wait = static_cast<double>(kSecond) * std::exp2(penalty_ - kForgiven);
    return penalised_at_ + static_cast<TimeNs>(std::min(wait, static_cast<double>(kHoldMax)));
  }

  static constexpr TimeNs kFirstTry = 20 * kMillisecond;
  static constexpr TimeNs kHalfLife = 30 * kSecond;
  static constexpr double kForgiven = 2.5;
  static constexpr TimeNs kHoldMax = 30 * kSecond;

  bool damping_;
  double penalty_ = 0;  // >= 0
  TimeNs penalised_at_ = 0;
  TimeNs down_since_ = kNever;  // kNever: it was never up, nor tried
  TimeNs next_ = 0;             // >= 0
};

}  // namespace r2ccl
