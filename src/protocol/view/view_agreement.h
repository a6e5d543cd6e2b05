// The agreement of the ranks of one communicator on a view, for one rank. Pure.
//
// A two-phase commit with ballots. A proposer collects the state of every member, and with it the
// members' promise to obey no lower ballot. Then it proposes a view from a collective on that no
// member has bound, and each member that accepts binds no plan from that collective on. When all
// have accepted, the proposer commits. So a view is committed exactly if one rank has its record,
// and the next proposer, who hears all members, finds it or knows that nobody can commit it any
// more (as in Skeen's commit protocol, with the ballots of Paxos in place of an elected recovery
// coordinator; it differs from Paxos in that all members decide, not a majority, because each
// must keep its own promise).
//
// A proposer whose members are silent aborts, and the old view stays in force. A member whose
// proposer has gone asks the lowest rank that lives to decide. A member whose proposer is silent
// waits for it: the collective needs that rank too.
//
// Messages may be lost, repeated and reordered. Each is a state, so a newer message from the same
// rank of the same kind may replace one that was not delivered. Any rank may propose at any time;
// proposals go from the proposer to the members and their answers back, never between members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/view/view_member.h"
#include "protocol/view/view_messages.h"

namespace r2ccl {

struct ViewSend {
  Rank to;
  ViewMessage message;
};

class ViewAgreement {
 public:
  // The wait for members that have not accepted. A rank of this network that does not answer for so
  // long has stopped; others have something better to do than to wait for it.
  static constexpr TimeNs kPatience = kSecond / 2;
  // A message without its effect is sent again after this time.
  static constexpr TimeNs kResend = kSecond / 5;
  // The wait after a proposal that failed. It doubles with each failure up to the longest one.
  static constexpr TimeNs kBackoff = 100 * kMillisecond;
  static constexpr TimeNs kBackoffMax = 5 * kSecond;

  // `first`: the record that all ranks start with.
  ViewAgreement(Rank self, int32_t rank_count, ViewRecord first);

  // --- the collectives of this rank ---
  bool may_bind(uint64_t number) const { return member_.may_bind(number); }
  const View& view_of(uint64_t number) const { return member_.view_of(number); }
  void on_bound(uint64_t number) { member_.on_bound(number); }

  // --- the agreement ---
  // Proposes this view, now or after the attempt under way. A later call replaces the view. A view
  // that is the latest one takes back the earlier call.
  void propose(const View& view, TimeNs now);
  // Takes a message. Fails when no correct rank can have sent it; then nothing has changed.
  Status on_message(Rank from, const ViewMessage& message, TimeNs now);
  // The rank will never bind a plan again. `in_order`: it has left and not died, so what it has
  // bound still counts. From then on no view is committed: the calls that are left are those that
  // the rank has bound, perhaps after its last answer.
  void on_gone(Rank rank, bool in_order, TimeNs now);
  void progress(TimeNs now);
  TimeNs next_timeout() const;
  // Returns the messages to send, and forgets them.
  std::vector<ViewSend> take_sends();
  bool has_sends() const { return !sends_.empty(); }

  // --- for reports ---
  const ViewMember& member() const { return member_; }
  const ViewRecord& latest() const { return member_.latest(); }
  // Returns the rank whose decision keeps this one from binding, or the ranks whose answers do.
  std::vector<Rank> waits_on() const;
  // Returns whether this rank waits for nothing: no attempt, no wish and no gate.
  bool settled() const;
  uint64_t attempts() const { return attempts_; }

  void check_invariants() const;
  // Returns a number that is equal for equal states.
  uint64_t fingerprint() const;

 private:
  // `spread`: the proposal is committed, and some members may not know it.
  enum class Phase : uint8_t { idle, collect, propose, release, spread };
  struct Attempt {
    Phase phase = Phase::idle;
    ViewAsk ask;  // the last question to all; valid unless idle
    uint64_t margin = 1;
    TimeNs began = 0;  // when the phase began
    TimeNs resend_at = kNever;
  };
  // The latest answer of a rank in this attempt.
  struct Answer {
    bool current = false;  // it answers the last question
    bool accepted = false;
    uint64_t version = 0;
    uint64_t bound = 0;
  };

  Rank owner_of(uint64_t ballot) const {
    return Rank(static_cast<int32_t>(ballot % static_cast<uint64_t>(rank_count_)));
  }
  bool gone(Rank rank) const { return gone_[static_cast<size_t>(rank.value())]; }
  bool orphaned() const { return held_by_gone(member_.held()); }
  bool held_by_gone(uint64_t ballot) const { return ballot != 0 && gone(owner_of(ballot)); }
  Rank coordinator() const;
  bool wants_attempt() const;
  void send(Rank to, ViewMessage message);

  Status check_ballot(Rank from, uint64_t ballot) const;
  Status on_ask(Rank from, const ViewAsk& ask);
  Status on_answer(Rank from, const ViewAnswer& answer, TimeNs now);
  Status on_commit(Rank from, const ViewCommit& commit);

  // view_proposer.cc
  void begin(TimeNs now);
  void ask_all(Phase phase, ViewStage stage, std::optional<ViewRecord> proposal, TimeNs now);
  void note(Rank from, const ViewAnswer& answer);
  void step(TimeNs now);
  bool step_once(TimeNs now);
  bool is_behind(const Answer& answer) const { return answer.version < latest().version; }
  bool all_answered() const;
  void resend();
  void decide(TimeNs now);
  void step_proposal(TimeNs now);
  void commit(TimeNs now);
  void end();
  void give_way(TimeNs now);
  void back_off(TimeNs now);
  void check_patience(TimeNs now);
  template <typename Predicate>
  bool all_living(Predicate holds) const {
    for (size_t rank = 0; rank < gone_.size(); ++rank) {
      if (!gone_[rank] && !holds(answers_[rank])) return false;
    }
    return true;
  }

  const Rank self_;
  const int32_t rank_count_;
  ViewMember member_;
  std::vector<bool> gone_;
  bool any_left_ = false;  // in order
  std::vector<ViewSend> sends_;
  uint64_t highest_ballot_ = 0;  // seen anywhere

  std::optional<View> wanted_;
  bool must_resolve_ = false;  // a proposal may still keep members from binding
  Attempt attempt_;
  std::vector<Answer> answers_;  // by rank, of attempt_; empty until the first one
  TimeNs retry_at_ = 0;
  TimeNs backoff_ = kBackoff;
  TimeNs complain_at_ = kNever;  // when this rank is kept from binding by a rank that has gone
  uint64_t attempts_ = 0;
};

}  // namespace r2ccl
