// Finds calls that differ between ranks where no message would show it: when both wait for each
// other, and when the job ends.
//
// A rank whose collective takes seconds sends its present call to the ranks that it waits for
// (WaitTracker decides when). A rank that finalizes tells every rank how many calls it has made:
// once they are complete, or before that if they take long, because the missing half of a call may
// be why. A rank that knows both sides of a difference fails the communicator, with the calls of
// both.
//
// Pure: callbacks act.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "runtime/collective/blocker.h"
#include "runtime/collective/call_history.h"

namespace r2ccl {

// A rank's report of its calls to another rank.
struct CallReport {
  enum class Reason : uint8_t {
    compare = 1,  // a question: is the receiver's history the same up to there? Which rank does it
                  // wait for?
    differ = 2,   // the sender has received a message of another call
    end = 3,      // the sender makes no more calls
    answer = 4,   // answers `compare`, or reports a change since the last answer
    closing = 5,  // as `end`, but the sender's calls are not complete; `number` counts all of them
  };
  Reason reason = Reason::compare;
  uint64_t number = 0;
  uint64_t chain = 0;
  uint64_t sends = 0;         // Sends to the receiver so far
  uint64_t receives = 0;      // Recvs from the receiver so far
  uint64_t tagged_sends = 0;  // tagged Sends to the receiver so far
  bool waits = false;         // the sender waits in a call
  Rank waits_for = kNoRank;
  Blocker root;              // the rank that holds the sender up, if known; is_root() is true
  uint32_t root_age_ms = 0;  // time since the root itself was heard
  std::string text;          // the call in words
  friend bool operator==(const CallReport&, const CallReport&) = default;
};
// The body of a notice of kind `calls`: a report for another reason than a question.
std::vector<std::byte> encode(const CallReport& report);
Result<CallReport> decode_call_report(std::span<const std::byte> bytes);
// The body of a question or an answer, which needs no reason.
std::vector<std::byte> encode_calls(const CallReport& report);
Result<CallReport> decode_calls(CallReport::Reason reason, std::span<const std::byte> bytes);

class CollectiveMismatchDetector {
 public:
  struct Callbacks {
    std::function<void(Rank peer, const CallReport& report)> send;
    // The calls of this rank and the peer do not match. Called at most once for each report and
    // each end.
    std::function<void(const std::string& why, Rank peer)> fail;
    std::function<std::string(Rank rank)> who;
    // Returns the number of Sends to, or Recvs from, the rank that were started.
    std::function<uint64_t(Rank peer)> sends;
    std::function<uint64_t(Rank peer)> receives;
    // Returns the number of tagged Sends to the rank.
    std::function<uint64_t(Rank peer)> tagged_sends;
    // Returns the number of collectives called, with those that have not begun.
    std::function<uint64_t()> called;
    // All `sends` tagged messages of this peer are known here, and it sends no more. Returns a
    // tagged Recv that none of them meets as text, or empty. Empty too while not all have come.
    std::function<std::string(Rank peer, uint64_t sends)> unmet_receive;
    // Returns the further waits of this rank besides its collective, as text that follows a comma,
    // or empty.
    std::function<std::string()> also_waits;
  };

  // Requires that `history` outlives this.
  CollectiveMismatchDetector(Rank self, int32_t rank_count, const CallHistory& history,
                             Callbacks callbacks);

  CallReport report_to(Rank peer, CallReport::Reason reason) const;
  void on_report(Rank peer, const CallReport& report);
  // Requires that a message of this peer does not belong to the running collective.
  void on_mismatch(Rank peer);
  // This rank makes no more calls, and all are complete.
  void end();
  // This rank makes no more calls, and waits for some.
  void close();
  // Finds calls of this rank that a peer in finalize will never match. Cheap while no peer told of
  // one.
  void check_closing();

 private:
  std::string describe_for(Rank peer, const CallRecord& call) const;
  void fail(Rank peer, const std::string& theirs, const CallRecord& mine) const;
  void compare(Rank peer, const CallReport& report);
  void compare_ends(Rank peer) const;
  std::string unmatched_by(Rank peer, const CallReport& theirs) const;

  const Rank self_;
  const int32_t rank_count_;
  const CallHistory& history_;
  const Callbacks callbacks_;
  bool mismatch_told_ = false;
  bool ended_ = false;
  std::map<Rank, CallReport> ends_;     // the last reports of the peers that have ended
  std::map<Rank, CallReport> closing_;  // of peers whose calls were not complete
};

}  // namespace r2ccl
