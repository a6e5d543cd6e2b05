// The calls of one rank beside those of the others: finds calls that do not match, and the rank
// that a call waits for. CollectiveMismatchDetector and WaitTracker decide; this class carries
// their reports to the other ranks and puts the results into words.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/collective/collective_mismatch_detector.h"
#include "runtime/collective/operations.h"
#include "runtime/collective/request.h"
#include "runtime/collective/wait_tracker.h"
#include "runtime/engine/members.h"
#include "runtime/query/rank_query.h"

namespace r2ccl {

class RankWaits {
 public:
  // Told which calls do not match, and of which ranks.
  using Mismatch = std::function<void(const std::string& why, std::vector<Rank> ranks)>;

  // All of them must outlive this. `on_communicator` follows each call in words.
  RankWaits(Members& members, RankQuery& query, const Clock& clock, const Operations& operations,
            std::string on_communicator, Mismatch mismatch);
  RankWaits(const RankWaits&) = delete;
  RankWaits& operator=(const RankWaits&) = delete;

  // A peer's message does not belong to the running collective.
  void on_mismatch(Rank peer) { mismatch_detector_.on_mismatch(peer); }
  // The body of a notice of kind `calls`.
  void on_notice(Rank peer, std::span<const std::byte> body);
  // The Sends and Recvs that the caller waits in. `hurried`: the bound of its wait ends soon.
  void set_transfers(const std::vector<PendingCall>& transfers, bool hurried);
  // This rank makes no more calls.
  void end() { mismatch_detector_.end(); }
  // The same, but some of its calls are not complete.
  void close() { mismatch_detector_.close(); }
  // The rank has failed: from now on it tells nothing of its calls.
  void stop() { stopped_ = true; }

  // After the engine's pass: an answer that has arrived must be read before a rank counts as
  // silent.
  void progress(TimeNs now);
  TimeNs next_timeout() const { return waits_.next_timeout(); }

  // As WaitTracker.
  bool collective_waits(TimeNs now) const { return waits_.collective_waits(now); }
  using Waiting = WaitTracker::Waiting;
  // Returns the calls that are not complete, each with the ranks that it waits for.
  std::vector<Waiting> calls() const { return waits_.calls(clock_.now()); }
  std::string words_for(const Blocker& blocker) const;
  // Returns the cause of the wait for one of calls(), or for a call that is queued behind it.
  WaitCause cause_of(const PendingCall& call, const std::vector<Waiting>& calls) const;
  // Returns whether the result of calls() may have changed since the last take_changed().
  bool take_changed() { return std::exchange(changed_, false); }

 private:
  CollectiveMismatchDetector::Callbacks mismatch_callbacks(Mismatch mismatch);
  WaitTracker::Callbacks wait_callbacks();
  RankQuery::Handler handler();
  void take(Rank peer, const CallReport& report);
  void send(Rank peer, CallReport report);
  std::string words_for(const PendingCall& call) const;

  Members& members_;
  RankQuery& query_;
  const Clock& clock_;
  const Operations& operations_;
  const std::string on_communicator_;
  CollectiveMismatchDetector mismatch_detector_;
  WaitTracker waits_;
  std::map<Rank, uint32_t> questions_;  // the number of each rank's last question
  bool stopped_ = false;
  bool changed_ = false;
};

}  // namespace r2ccl
