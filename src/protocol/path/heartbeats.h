// Decides when a link sends heartbeats, and on which of its control streams. Pure.
//
// A heartbeat is a ping on one control stream; its pong shows that the path works both ways. The
// end that opens the paths pings, the other end answers, and pings too when it hears nothing. So a
// check costs each end one frame.
//
// A link that carries chunks checks each of its streams in every interval. An idle link checks only
// some of them, in turn, and where a rank has many links, these take turns too: what a rank sends
// for nothing must not grow with ranks times NICs. The links of a rank begin at different streams,
// so together they check each NIC far more often than each path.
//
// All links of a rank are due at the same moment, the same for all ranks whose clocks agree: one
// wake-up serves the heartbeats of all links, and the pings of all peers. Noise that comes at the
// same time everywhere also delays a collective less (Petrini, Kerbyson, Pakin, SC 2003).
// The alternative not taken is a timer for each path, from its last frame: it woke a rank of 16
// with 8 NICs a hundred times a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "protocol/path/path_end.h"

namespace r2ccl {

class Heartbeats {
 public:
  // `paths`: of the link, by index; they must outlive this. `opens`: this end opens them.
  // `links`: of the rank. `shift`: the same at both ends; links of a rank with successive shifts
  // have their turns in successive intervals, and check all NICs in each round of turns, as far as
  // they check enough streams.
  Heartbeats(std::vector<PathEnd*> paths, bool opens, size_t links, size_t shift);

  // Returns the time in which each link of a rank with so many links has its turn.
  static TimeNs idle_interval(size_t links);

  struct Now {
    TimeNs time = 0;
    TimeNs wall = 0;      // by the clock that the ranks have in common
    TimeNs heard_at = 0;  // the peer's latest frame
    TimeNs spacing = 0;   // the least time between two frames to a peer that answers nothing
    uint64_t work = 0;    // a number that changes when the link carries chunks
  };
  bool due(TimeNs now) const { return now >= next_at_; }
  // Ends an interval. Returns the paths whose control streams are to carry a heartbeat now.
  const std::vector<PathEnd*>& take(const Now& now);
  TimeNs next_at() const { return next_at_; }

  // Returns a time in which an idle link checks each of its streams once.
  TimeNs period() const;

  void check_invariants() const;

 private:
  static bool takes_ping(const PathEnd& path, TimeNs now);
  size_t wanted(const Now& now, bool works) const;

  const std::vector<PathEnd*> paths_;
  const bool opens_;
  const size_t checks_;     // of an idle link in its turn: 1 to the number of paths
  const TimeNs idle_beat_;  // from one turn of an idle link to the next
  const TimeNs turn_at_;    // < idle_beat_: the turns are so long after a multiple of idle_beat_
  size_t cursor_;           // < the number of paths
  uint64_t work_ = UINT64_MAX;
  TimeNs next_at_ = 0;
  std::vector<PathEnd*> chosen_;  // kept for its memory
};

}  // namespace r2ccl
