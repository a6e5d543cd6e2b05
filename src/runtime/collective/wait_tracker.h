// Finds the rank that a call of this rank waits for, however many ranks wait in between.
//
// A rank that has waited for some time asks each rank that it waits for. The answer says how far
// that rank has come, whether it waits itself, and the root that it knows: a rank that is behind
// and does not wait, or that does not answer. A rank whose answer changes sends it again to the
// ranks that asked. So each rank learns the root from its neighbours, and no rank asks the whole
// job. This is a distance-vector exchange with split horizon and expiry (as RIP, RFC 2453) that
// carries a name in place of a distance.
//
// Pure: the caller passes the time, and callbacks act.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "runtime/collective/blocker.h"
#include "runtime/collective/collective_mismatch_detector.h"
#include "runtime/collective/pending_call.h"

namespace r2ccl {

class WaitTracker {
 public:
  // Longer than most operations of ranks that all work.
  static constexpr TimeNs kAskAfter = 250 * kMillisecond;
  static constexpr TimeNs kAskRarest = 10 * kSecond;
  // A process that runs answers sooner, also on a machine with much to do.
  static constexpr TimeNs kSilentAfter = 500 * kMillisecond;
  // A rank whose process is heard may answer yet: a slow network delays the answer.
  static constexpr TimeNs kSilentThoughHeardAfter = 2 * kSecond;
  // The line is written before the call has waited for a second.
  static constexpr TimeNs kWarnAfter = 900 * kMillisecond;
  // The name of the root may still be on its way. Ranks that wait for each other have no root.
  static constexpr TimeNs kWarnWithoutRootAfter = 2 * kSecond;
  // A collective that lasts this long holds up its caller.
  static constexpr TimeNs kLongAfter = 1 * kSecond;

  struct Callbacks {
    // Sends this rank's report to `peer`, as a question (compare) or an answer.
    std::function<void(Rank peer, CallReport::Reason reason)> send;
    // Returns the collective with this number in all details. They are copied only when a message
    // shows them.
    std::function<PendingCall(uint64_t number)> collective;
    // Returns the ranks that the running collective waits for.
    std::function<std::vector<Rank>()> waits_on;
    // Returns whether the peer has not made the counterpart of a tagged call, as far as this rank
    // knows.
    std::function<bool(const PendingCall& call)> lacks;
    // Makes the link ask the peer's process and kernel, so that silence_of() is known.
    std::function<void(Rank peer)> doubt;
    // Returns the kind of the peer's silence. The peer owes an answer.
    std::function<Blocker::Kind(Rank peer)> silence_of;
    // A rank is to blame for the wait of the call. Called at most once for each call.
    std::function<void(const PendingCall& call, TimeNs waited, const Blocker& blocker)> warn;
  };

  WaitTracker(Rank self, int32_t rank_count, Callbacks callbacks)
      : self_(self), rank_count_(rank_count), callbacks_(std::move(callbacks)) {}

  // Sets the number of the latest collective that has begun, and whether it still runs. Cheap when
  // nothing changes.
  void set_collective(uint64_t latest, bool running, TimeNs now);
  // Returns whether a collective has not been complete for long, whether its caller waits or asks.
  bool collective_waits(TimeNs now) const {
    return collective_ && now - collective_->since >= kLongAfter;
  }
  // Sets the Sends and Recvs that a thread of the caller waits in.
  void set_transfers(const std::vector<PendingCall>& transfers, TimeNs now);
  // Asks now, because the time limit of a caller ends soon.
  void hurry(TimeNs now);
  // Requires that the peer is another rank of the job.
  void on_report(Rank peer, const CallReport& report, TimeNs now);
  void progress(TimeNs now);
  TimeNs next_timeout() const { return tick_at_; }

  // Adds this rank's waits to a report for `peer`, without the root that it learnt from there.
  void complete(Rank peer, TimeNs now, CallReport* report) const;

  struct Waiting {
    PendingCall call;
    TimeNs waited = 0;
    Blocker blocker;
  };
  // Returns the incomplete calls: the running collective and the transfers.
  std::vector<Waiting> calls(TimeNs now) const;

 private:
  struct Watched {
    PendingCall call;  // of a collective only its kind and its number
    TimeNs since = 0;
    bool warned = false;
    TimeNs ask_at = 0;  // but not before kAskAfter
  };
  struct Standing {
    CallReport report;
    TimeNs heard_at = -1;  // negative: this rank has had no report of it
    TimeNs asked_at = -1;  // negative: no question is open
  };
  struct Requester {
    TimeNs at = 0;
    uint64_t number = 0;  // number of its latest collective
  };
  // A blocker, the neighbour that named it, and the time at which the blocker itself was heard.
  struct Found {
    Blocker blocker;
    Rank from = kNoRank;
    TimeNs stated_at = 0;
  };
  // The state that answers report.
  struct State {
    uint64_t number = 0;
    bool waits = false;
    Rank waits_for = kNoRank;
    Blocker root;
    friend bool operator==(const State&, const State&) = default;
  };

  PendingCall details_of(const PendingCall& call) const;
  std::vector<Rank> peers_of(const PendingCall& call) const;
  Blocker lack_of(const PendingCall& call, Rank peer, const CallReport& report) const;
  Found look_at(const Watched& watched, Rank peer, TimeNs now) const;
  Found find(const Watched& watched, TimeNs now) const;
  Found find_any(TimeNs now) const;
  template <typename Tracker, typename Each>
  static void for_each_watched(Tracker& tracker, const Each& each);
  std::optional<Blocker::Kind> silence_of(Rank peer, const Standing& standing, TimeNs now) const;
  State state(const Found& found) const;
  void ask(std::vector<Rank> peers, TimeNs now);
  void ask_due(TimeNs now);
  void tell_requesters(TimeNs now);
  void warn(Watched& watched, TimeNs now);
  TimeNs next_look(TimeNs now) const;
  void schedule(TimeNs now);

  const Rank self_;
  const int32_t rank_count_;
  const Callbacks callbacks_;
  uint64_t latest_ = 0;
  std::optional<Watched> collective_;
  std::vector<Watched> transfers_;
  std::map<Rank, Standing> standings_;
  std::map<Rank, Requester> requesters_;
  TimeNs tick_at_ = kNever;
  TimeNs asked_at_ = -1;
  // By kind of call and peer, the highest number of a Send or Recv with a line: a caller may wait
  // for the same call again.
  std::map<std::pair<PendingCall::Kind, Rank>, uint64_t> warned_;
  State told_;
  TimeNs told_at_ = -1;
};

}  // namespace r2ccl
