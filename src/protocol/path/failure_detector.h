// Decides from acknowledgements, pongs and the answers of the peer's kernel which paths of one link
// are suspect and which have failed. Pure: the caller gives the time and carries out the actions.
//
// A path is suspect when it misses its own loss deadline AND the peer has meanwhile acted on
// something that was sent after that deadline. So a peer that was descheduled, or a pause of this
// process, makes no path suspect: everything is overdue together then. A suspect path fails after a
// bound without a sign of life. A path whose data still trickles, or whose peer's kernel answers,
// has a longer bound.
//
// The method varies two standard ones. The loss deadline of a path comes from its own estimators,
// as in an adaptive failure detector (Bertier, Marin, Sens, DSN 2002; RFC 6298's timer), but it
// never decides alone. The comparison with the other paths takes the place of a fixed threshold, as
// TCP's RACK (RFC 8985) compares a packet with others that were sent later and have arrived. The
// alternative not taken is a heartbeat with a timeout on each path: a timeout short enough to find
// a fault in milliseconds accuses every process that the scheduler stops for longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "protocol/path/path_end.h"

namespace r2ccl {

// The one that has answered the pings to a peer lately.
enum class Answerer : uint8_t {
  process,  // or nobody has pinged it
  kernel,   // of the peer's host: the process is stopped, or gets no CPU time
  nobody,
};

class FailureDetector {
 public:
  // Carries out the detector's decisions. Each call may change the path's state at once.
  class Actions {
   public:
    virtual ~Actions() = default;
    // Sends the state with a ping on the path's control stream; on_ping_sent() must follow.
    virtual void send_ping(PathEnd& path, TimeNs now) = 0;
    // `stream`: "data" or "control stream", overdue by `late`.
    virtual void suspect(PathEnd& path, const char* stream, TimeNs late, TimeNs now) = 0;
    virtual void clear(PathEnd& path, TimeNs now) = 0;
    virtual void fail(PathEnd& path, DownCause cause, const char* why, TimeNs now) = 0;
    // Tries a plain connect. The peer's kernel must answer it within kernel_answer_bound(), even
    // when its process is stopped. Only one at a time.
    virtual void probe_kernel(PathEnd& path, TimeNs now) = 0;
    // Opens a new connection of the path where this end may, else does as probe_kernel(). Does
    // nothing if an attempt began less than `interval` ago.
    virtual void reconnect(PathEnd& path, TimeNs interval, TimeNs now) = 0;
    // Returns PathScheduler::prompt_round_trip().
    virtual TimeNs prompt_round_trip(TimeNs now) const = 0;
  };

  // The paths of the link, by index; they must outlive the detector. `heartbeat`: a peer that runs
  // is heard so often.
  FailureDetector(Actions& actions, std::vector<PathEnd*> paths, TimeNs heartbeat)
      : actions_(actions), paths_(std::move(paths)), heartbeat_(heartbeat) {
    for (size_t i = 0; i < paths_.size(); ++i) R2CCL_CHECK(paths_[i]->index == i);
  }

  // --- evidence ---
  // Records a control frame. Returns whether the peer had been asked and owed it.
  bool on_frame(TimeNs now);
  // Records a doubt about the peer, of another rank or by a refusal: pings it.
  void on_doubt(TimeNs now) { ping_peer(nullptr, now); }
  // Records that the peer acted on something that was sent at `sent_at`.
  void on_evidence(TimeNs sent_at) { evidence_at_ = std::max(evidence_at_, sent_at); }
  // Requires a connected path. Returns the number of a new ping. A casual one is not missed before
  // 100 ms.
  uint32_t on_ping_sent(PathEnd& path, bool casual, TimeNs now);
  void on_pong(PathEnd& path, uint32_t number, TimeNs now);
  // Records that a connection of the link was dialed although the peer seemed silent.
  void on_silence_ended(TimeNs now);
  // Records that no path is connected, so the peer owes no answer.
  void on_all_down() { pinged_at_ = 0; }
  // Records that the loop of this process, or all of the peer, stood still for `duration`. This
  // moves every running deadline.
  void compensate_pause(TimeNs duration, TimeNs now);
  // Does as compensate_pause(), and shortens the peer's silence by `duration`.
  void compensate_idle(TimeNs duration, TimeNs now);

  // --- decisions ---
  void run(TimeNs now);
  // Returns the time at which run() is due again if nothing happens before. It does not depend on
  // the other links of a NIC: where their bytes excuse a path that is late, run() looks again after
  // kSharedNicInterval.
  TimeNs next_timeout(TimeNs now) const;
  static constexpr TimeNs kSharedNicInterval = 1 * kMillisecond;

  // --- queries ---
  // Returns whether the peer owes an answer.
  bool pinged() const { return pinged_at_ != 0; }
  // Returns the time for which the peer has answered nothing although it was asked; 0: it answers.
  TimeNs unheard(TimeNs now) const { return pinged_at_ == 0 ? 0 : now - pinged_at_; }
  // Returns the time for which nothing has come from the peer's host, not even from its kernel.
  TimeNs silence(TimeNs now) const;
  Answerer answerer(TimeNs now) const;
  // Returns the least time between two frames to a peer that answers nothing. The kernel of a
  // stopped process queues only so many frames, however long the process is stopped.
  TimeNs spacing(TimeNs now) const { return unheard(now) / 4; }
  TimeNs heard_at() const { return heard_at_; }
  // Returns whether the peer began to owe an answer on this path before the end of a silence of the
  // whole peer.
  bool owed_in_silence(const PathEnd& path) const;
  // Returns the time at which the oldest chunk of the path is overdue, counting the bytes that
  // other links have sent through its NIC; kNever: no chunk is outstanding.
  static TimeNs data_overdue_at(const PathEnd& path);
  // Returns the time at which the oldest missed pong is overdue; kNever: none is missed.
  static TimeNs control_overdue_at(const PathEnd& path);

  // Returns the bound for an answer of the kernel. A later answer proves nothing more, and a new
  // connection may be due on this path.
  static TimeNs kernel_answer_bound(const PathEnd& path);

  void check_invariants() const;

 private:
  void check_up(PathEnd& path, TimeNs now);
  void check_suspect(PathEnd& path, TimeNs now);
  void ping_suspect(PathEnd& path, bool pong, TimeNs now);
  void check_silence(TimeNs now);
  static TimeNs data_due_at(const PathEnd& path, TimeNs now);
  void note_acknowledged(TimeNs now);
  // `in_doubt`: the path that causes the ping; null: the whole peer is in doubt.
  void ping_peer(PathEnd* in_doubt, TimeNs now);
  bool others_in_doubt(const PathEnd* in_doubt, TimeNs now) const;
  PathEnd* choose_witness(const PathEnd* in_doubt, TimeNs now);
  bool is_last(const PathEnd& path) const;
  TimeNs reconnect_interval(TimeNs now) const;

  Actions& actions_;
  const std::vector<PathEnd*> paths_;
  const TimeNs heartbeat_;
  uint32_t ping_number_ = 1;     // number of the next ping; never 0
  TimeNs evidence_at_ = 0;       // <= heard_at_: the peer has acted on something sent at this time
  TimeNs heard_at_ = 0;          // a control frame last came at this time
  TimeNs pinged_at_ = 0;         // the peer got a ping and has sent nothing since; 0: it has
  TimeNs silence_ended_at_ = 0;  // all control streams had been silent until then
  TimeNs next_ping_ = 0;
  TimeNs last_pinged_at_ = 0;  // <= next_ping_
  TimeNs ping_wait_ = 0;       // at most 4 * kPingInterval
  size_t witness_cursor_ = 0;  // <= paths_.size()
  TimeNs next_kernel_look_ = 0;
};

}  // namespace r2ccl
