// The agreement of some ranks of a communicator on a smaller one of themselves, for one rank. Pure.
//
// Each rank that is to stay tells the lowest of them that lives, the coordinator, which ranks it
// excludes. When all have told the same list, the communicator is made; when one has died, left, or
// told another list, it is not. The coordinator tells the outcome. All ranks that live have the
// same one: a rank that takes over from a coordinator asks all others first whether the
// communicator is made, and a rank that has answered hears no lower coordinator any more. No
// rank needs an excluded one. This is an atomic commit (Gray 1978) whose coordinators take turns in
// the order of their ranks; a rank that has gone never comes back, so it needs no majority.
//
// Messages from one rank to another arrive in their order, and one of a kind may replace an earlier
// one of the same kind that was not delivered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/shrink/shrink_messages.h"
#include "protocol/shrink/shrink_records.h"

namespace r2ccl {

struct ShrinkSend {
  Rank to;
  ShrinkMessage message;
};

class ShrinkAgreement {
 public:
  // A coordinator asks the ranks that have not called after the first time, and again after each
  // second one: they may have called with another list, of which another rank knows.
  static constexpr TimeNs kAskAfter = 200 * kMillisecond;
  static constexpr TimeNs kAskAgain = kSecond;
  // A rank withdraws a call that its coordinator does not answer, and ends it after this time.
  static constexpr TimeNs kGiveUpAfter = 10 * kSecond;
  // A rank that others take for the coordinator finds soon that the present one has gone, but not
  // one whose latest address it does not know. It withdraws its call after this time.
  static constexpr TimeNs kDoubtFor = 10 * kSecond;

  // `patience`: how long a coordinator waits for ranks that have not called.
  ShrinkAgreement(Rank self, int32_t rank_count, TimeNs patience);

  // This rank wants a communicator without these ranks, which are in ascending order and without
  // itself. Its calls come one after another. `view`: that the new one begins with, if this rank
  // decides.
  void call(std::vector<Rank> excluded, const View& view, TimeNs now);
  // The call that waits is to end, if the communicator is not made already.
  void withdraw(TimeNs now);
  // Returns the outcome of the last call, once there is one.
  const std::optional<ShrinkDecision>& outcome() const { return outcome_; }
  // Returns how a communicator that this rank has made without these ranks began, to tell the
  // others before this rank leaves.
  std::vector<ShrinkSend> last_words() const;

  // Returns the communicators that the others have made with a call that this rank has given up,
  // and forgets them: they are to hear that it takes no part.
  std::vector<ShrinkSubject> take_ghosts() { return std::exchange(ghosts_, {}); }

  // Takes a message. Fails when no correct rank can have sent it; then nothing has changed.
  Status on_message(Rank from, const ShrinkMessage& message, TimeNs now);
  // The rank has died, is cut off, or has left: `how`.
  void on_gone(Rank rank, ShrinkOutcome how, TimeNs now);
  void progress(TimeNs now);
  TimeNs next_timeout() const { return next_; }
  // Returns the messages to send, and forgets them.
  std::vector<ShrinkSend> take_sends();

  // --- for reports ---
  // Returns the ranks that have made a communicator without this one.
  const std::vector<Rank>& excluded_by() const { return excluded_by_; }
  // Returns a number that is equal for equal states.
  uint64_t fingerprint() const;

 private:
  // The last call of a rank, in so far as this one knows it.
  struct Heard {
    ShrinkWish wish;
    bool open = false;         // it waits
    bool direct = false;       // for a decision of this rank
    bool in_conflict = false;  // it has ended, because its list was not that of another rank
    TimeNs since = 0;          // it waits; or it has ended in conflict
    uint32_t decided = 0;      // the highest serial of the rank that has ended
    uint32_t answered = 0;     // the last round that the rank has answered
    bool made = false;         // in that answer
    View view;                 // in that answer
  };
  // Calls for one subject, while nothing else happens: most calls are only counted.
  struct Tally {
    ShrinkSubject subject;
    size_t missing = 0;
    // Returns whether calls are still missing after this one.
    bool add(const ShrinkWish& wish) { return wish.subject == subject && --missing > 0; }
  };
  // The latest questions of this rank.
  struct Asked {
    ShrinkSubject subject;
    uint32_t first_round = 0;  // with this subject
    bool all = false;          // to all ranks that stay
    TimeNs since = 0;          // the first round
    TimeNs again_at = 0;
  };

  bool gone(Rank rank) const { return gone_[static_cast<size_t>(rank.value())].has_value(); }
  Heard& heard(Rank rank) { return heard_[static_cast<size_t>(rank.value())]; }
  const Heard& heard(Rank rank) const { return heard_[static_cast<size_t>(rank.value())]; }
  std::vector<Rank> kept(const ShrinkSubject& subject) const;
  Rank coordinator(const ShrinkSubject& subject) const;
  void send(Rank to, ShrinkMessage message);
  ShrinkWish own_wish() const;
  void tell_wish();
  Status check(Rank from, const ShrinkMessage& message) const;
  void on_wish(Rank from, const ShrinkWish& wish, bool direct, TimeNs now);
  void on_question(Rank from, const ShrinkQuestion& question);
  void on_answer(Rank from, const ShrinkAnswer& answer, TimeNs now);
  void on_decision(const ShrinkDecision& decision, TimeNs now);
  void adopt(const ShrinkDecision& decision, TimeNs now);

  // shrink_coordinator.cc
  std::vector<ShrinkSubject> subjects() const;
  std::optional<ShrinkDecision> decide(const ShrinkSubject& subject, TimeNs now);
  std::optional<ShrinkDecision> give_up(const ShrinkSubject& subject, TimeNs now);
  bool wants(Rank rank, const ShrinkSubject& subject) const;
  bool may_be_made(const ShrinkSubject& subject) const;
  std::vector<Rank> unanswered(const ShrinkSubject& subject) const;
  const View* made_view(const ShrinkSubject& subject) const;
  std::optional<ShrinkDecision> find_lost(const ShrinkSubject& subject) const;
  std::optional<ShrinkDecision> find_conflict(const ShrinkSubject& subject);
  std::optional<ShrinkDecision> wait_for_calls(const ShrinkSubject& subject, TimeNs now);
  void ask(const ShrinkSubject& subject, bool all, TimeNs now);
  TimeNs began(const ShrinkSubject& subject) const;
  void tell(ShrinkDecision decision, TimeNs now);

  const Rank self_;
  const TimeNs patience_;
  std::vector<std::optional<ShrinkOutcome>> gone_;  // by rank
  std::vector<Heard> heard_;                        // by rank, with this one
  MadeCommunicators made_;
  ShrinkPromises promises_;
  std::vector<ShrinkSend> sends_;
  std::optional<ShrinkDecision> outcome_;
  View own_view_;        // what the last call has given
  Rank told_ = kNoRank;  // the coordinator that knows the call that waits
  std::vector<Rank> excluded_by_;
  std::vector<ShrinkSubject> given_up_;  // without an answer
  std::vector<ShrinkSubject> ghosts_;
  std::optional<Asked> asked_;
  std::optional<Tally> tally_;  // set by wait_for_calls(), until the next event of another kind
  uint32_t round_ = 0;
  TimeNs next_ = kNever;
};

}  // namespace r2ccl
