// Reads times of the peer's monotonic clock on this host's clock. Pure.
//
// The clocks differ by a constant, which no message shows without its own delay. So this clock
// takes the least difference that a recent message has shown: the constant and the quickest way
// back, whatever way the others took. This is the minimum filter of LEDBAT (RFC 6817, section
// 3.4.2), which differs in its aim: it measures the queue of one path by that path's own least
// delay. Here the error is the same on all paths of a link, so their times compare.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace r2ccl {

// The arrival of a data frame at the peer, as an acknowledgement tells it.
struct FrameArrival {
  TimeNs at = 0;  // by the peer's clock, whose zero is not known here
  // Times since something could have been known here, had it come on the quickest way back: >= 0.
  TimeNs known_for = 0;  // this arrival
  TimeNs told_for = 0;   // all that the acknowledgement tells
};

class PeerClock {
 public:
  // Records a message that the peer sent at `sent_at` by its clock, which may be any number.
  void on_message(uint64_t sent_at, TimeNs now) {
    if (now - period_at_ > kPeriod) {
      before_ = now - period_at_ > 2 * kPeriod ? kNever : least_;
      least_ = kNever;
      period_at_ = now;
    }
    least_ = std::min(least_, static_cast<TimeNs>(static_cast<uint64_t>(now) - sent_at));
  }
  // Requires a recorded message. Reads the times of an acknowledgement, which may be any numbers.
  FrameArrival read(uint64_t arrived_at, uint64_t sent_at, TimeNs now) const {
    // Differences of such times cannot overflow.
    constexpr TimeNs kMost = kNever / 8;
    return {.at = std::clamp(static_cast<TimeNs>(arrived_at), -kMost, kMost),
            .known_for = since(arrived_at, now),
            .told_for = since(sent_at, now)};
  }

 private:
  TimeNs since(uint64_t peer_time, TimeNs now) const {
    const auto difference = static_cast<uint64_t>(std::min(least_, before_));
    return now - std::clamp<TimeNs>(static_cast<TimeNs>(peer_time + difference), 0, now);
  }

  // The clocks of two hosts drift by 100 ppm at most: by 50 us in two periods.
  static constexpr TimeNs kPeriod = 250 * kMillisecond;

  TimeNs least_ = kNever;   // what the running period has shown
  TimeNs before_ = kNever;  // what the one before has shown
  TimeNs period_at_ = 0;
};

}  // namespace r2ccl
