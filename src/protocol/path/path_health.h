// The pings and pongs on one path's control stream, and the answers of the peer's kernel. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/fifo.h"

namespace r2ccl {

struct PathHealth {
  struct Ping {
    uint32_t number = 0;
    TimeNs sent_at = 0;
    TimeNs missed_at = 0;  // its pong counts as missed from then on; a compensated pause moves it
  };
  Fifo<Ping> pings;  // without a pong on this control stream, oldest first
  TimeNs last_ping_at = 0;
  TimeNs pong_at = 0;             // a pong last came on this control stream
  TimeNs kernel_answered_at = 0;  // the peer's kernel answered a connect, or a suspect's ping
  TimeNs acknowledged_at = 0;     // the peer's kernel owed this control stream nothing
  TimeNs round_trip = 0;          // smoothed; 0: not measured yet
  TimeNs last_round_trip = 0;
  uint32_t pong_due = 0;  // the peer's ping that waits for a pong on this control stream; 0: none
  TimeNs last_sent_at = 0;

  // Returns the time from which on a pong is missed; kNever: none is.
  TimeNs missed_since() const {
    TimeNs since = kNever;
    for (const Ping& ping : pings) since = std::min(since, ping.missed_at);
    return since;
  }
  // Returns the round trip at `now`: an unanswered ping raises it.
  TimeNs round_trip_at(TimeNs now) const {
    return pings.empty() ? last_round_trip : std::max(last_round_trip, now - pings.front().sent_at);
  }
};

}  // namespace r2ccl
