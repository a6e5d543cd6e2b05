// When to send this end's state to the peer, and how much of it the peer has acknowledged. Pure.
//
// Each change of the state raises its version. A frame carries every change after the last
// acknowledged version, so a later frame makes up for a lost one. A variant of TCP's delayed
// acknowledgement (RFC 1122, section 4.2.3.2) with the retransmission of QUIC's control frames
// (RFC 9000, section 13.3: resend the current value, never the old packet). It differs from TCP in
// three points: an urgent change is sent at once, the retransmission timer doubles only while the
// peer acknowledges nothing, and the frame may take any path.
// The alternative not taken is a reliable stream of state messages: one dead path would block every
// message behind it, although only the newest value matters.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/limits.h"

namespace r2ccl {

class StateExchange {
 public:
  // --- this end's state ---
  uint64_t version() const { return version_; }
  // Returns the version up to which the peer has applied every change.
  uint64_t acknowledged() const { return acknowledged_; }
  void bump_version() { ++version_; }
  // Records that the peer probably waits for the latest change, so that the next frame goes at
  // once.
  void mark_urgent() { urgent_ = true; }
  // Records payload that no frame has acknowledged yet.
  void on_payload(uint64_t bytes) { unreported_bytes_ += bytes; }
  // Records room in the eager pool that no frame has given back yet.
  void on_freed(uint64_t bytes) { unreported_room_ += bytes; }
  bool much_unreported() const {
    return std::max(unreported_bytes_, unreported_room_) >= limits::kDelayedAckBytes;
  }

  // Records that the peer acknowledges the versions up to `version`. Ignores a version from the
  // future.
  void on_acknowledged(uint64_t version);

  // --- the peer's state ---
  uint64_t peer_version() const { return peer_version_; }
  // Returns whether a frame has acknowledged the latest known version of the peer's state.
  bool peer_informed() const { return peer_acknowledged_ >= peer_version_; }
  // Records that every change up to `version` of the peer's state has been applied.
  void on_peer_state(uint64_t version, TimeNs now);

  // --- sending ---
  struct Due {
    bool change = false;      // a change that no frame has carried
    bool retransmit = false;  // a change that the peer has not acknowledged in time
    bool acknowledge = false;
    explicit operator bool() const { return change || retransmit || acknowledge; }
  };
  Due due(TimeNs now);
  // Returns whether something that no frame has carried will be due within `duration`, so that a
  // frame which leaves now may save a later one.
  bool due_within(TimeNs duration, TimeNs now) const;
  // Records that no path takes a frame now, so the due changes become due again a little later.
  void postpone(const Due& due, TimeNs now);
  // Doubles the wait of the next retransmission; the caller is about to retransmit.
  void back_off() { wait_ = std::min(2 * wait_, limits::kStateResendMax); }
  // Records a frame with the changes up to `version`, on a path that delivers it soon. The
  // retransmission timer runs for at least two round trips and at least `wait_min`.
  void on_sent(uint64_t version, TimeNs round_trip, TimeNs wait_min, TimeNs now);
  // Moves a running retransmission timer to `now`.
  void hurry(TimeNs now);
  TimeNs next_timeout() const {
    return std::min({acknowledge_at_, retransmit_at_, change_due_at_});
  }

  void check_invariants() const;

 private:
  uint64_t version_ = 1;
  uint64_t sent_ = 0;  // <= version_: the changes that frames have carried, or count as such
  uint64_t sent_in_full_ = 0;  // <= version_: the last frame had room up to here
  uint64_t acknowledged_ = 0;  // <= version_
  uint64_t peer_version_ = 0;
  uint64_t peer_acknowledged_ = 0;  // <= peer_version_
  TimeNs acknowledge_at_ = kNever;
  TimeNs retransmit_at_ = kNever;
  TimeNs wait_ = limits::kStateResendMin;  // kStateResendMin to kStateResendMax
  uint64_t unreported_bytes_ = 0;
  uint64_t unreported_room_ = 0;
  TimeNs change_due_at_ = kNever;
  bool urgent_ = false;
};

}  // namespace r2ccl
