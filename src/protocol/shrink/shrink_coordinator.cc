// The part of the agreement that decides: of the lowest rank that stays and lives.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "protocol/shrink/shrink_agreement.h"

namespace r2ccl {
namespace {

ShrinkDecision outcome_of(const ShrinkSubject& subject, ShrinkOutcome outcome,
                          std::vector<Rank> ranks = {}) {
  ShrinkDecision decision;
  decision.subject = subject;
  decision.outcome = outcome;
  decision.ranks = std::move(ranks);
  return decision;
}

}  // namespace

bool ShrinkAgreement::wants(Rank rank, const ShrinkSubject& subject) const {
  return heard(rank).open && heard(rank).wish.subject == subject;
}

TimeNs ShrinkAgreement::began(const ShrinkSubject& subject) const {
  TimeNs first = kNever;
  for (const Heard& each : heard_) {
    if (each.open && each.wish.subject == subject) first = std::min(first, each.since);
  }
  return first;
}

// Returns the subjects of the calls that wait for this rank.
std::vector<ShrinkSubject> ShrinkAgreement::subjects() const {
  std::vector<ShrinkSubject> all;
  for (const Heard& each : heard_) {
    const ShrinkSubject& subject = each.wish.subject;
    if (!each.open || !each.direct || std::ranges::find(all, subject) != all.end()) continue;
    all.push_back(subject);
  }
  return all;
}

std::optional<ShrinkDecision> ShrinkAgreement::decide(const ShrinkSubject& subject, TimeNs now) {
  if (const View* view = made_view(subject)) {
    ShrinkDecision decision = outcome_of(subject, ShrinkOutcome::made);
    decision.view = *view;
    return decision;
  }
  if (coordinator(subject) != self_) return give_up(subject, now);
  if (may_be_made(subject)) {
    ask(subject, true, now);
    std::vector<Rank> silent = unanswered(subject);
    // From the question, not from the calls: a rank may take over after they have waited for long.
    const TimeNs late = asked_->since + patience_ + kSecond;
    if (!silent.empty() && now < late) {
      next_ = std::min(next_, late);
      return std::nullopt;
    }
    // If a silent one has made it with a coordinator that has gone, it has failed there.
    if (!silent.empty()) {
      return outcome_of(subject, ShrinkOutcome::not_called, std::move(silent));
    }
  }
  if (auto decision = find_lost(subject)) return decision;
  if (auto decision = find_conflict(subject)) return decision;
  return wait_for_calls(subject, now);
}

// The coordinator does not answer this rank in time: it is stopped, or does not know this
// communicator. It may have decided, and its word may come yet. Or another rank takes it for gone,
// and this one does not.
std::optional<ShrinkDecision> ShrinkAgreement::give_up(const ShrinkSubject& subject, TimeNs now) {
  if (!wants(self_, subject)) {
    const TimeNs late = began(subject) + patience_ + kSecond;
    if (now >= late) return outcome_of(subject, ShrinkOutcome::not_called, {coordinator(subject)});
    next_ = std::min(next_, late);
    return std::nullopt;
  }
  Heard& own = heard(self_);
  // A rank that has told this one its call takes all lower ones for gone.
  TimeNs doubted = kNever;
  for (const Rank rank : kept(subject)) {
    const bool told = rank != self_ && wants(rank, subject) && heard(rank).direct;
    if (told) doubted = std::min(doubted, heard(rank).since);
  }
  const bool doubts = doubted < own.since + patience_;
  const TimeNs late = (doubts ? std::max(own.since, doubted) + std::min(patience_, kDoubtFor)
                              : own.since + patience_) +
                      2 * kSecond;
  if (now < late) {
    next_ = std::min(next_, late);
    return std::nullopt;
  }
  if (!std::exchange(own.wish.withdrawn, true)) send(coordinator(subject), own.wish);
  if (now < late + kGiveUpAfter) {
    next_ = std::min(next_, late + kGiveUpAfter);
    return std::nullopt;
  }
  given_up_.push_back(subject);
  const ShrinkOutcome how = doubts ? ShrinkOutcome::cut_off : ShrinkOutcome::not_called;
  return outcome_of(subject, how, {coordinator(subject)});
}

// Returns the view of a communicator that is made; null if this rank knows of none.
const View* ShrinkAgreement::made_view(const ShrinkSubject& subject) const {
  if (const View* own = made_.view_of(subject)) return own;
  if (!asked_ || !(asked_->subject == subject) || mutated(Mutant::shrink_forget)) return nullptr;
  const auto found = std::ranges::find_if(heard_, [this](const Heard& each) {
    return each.made && each.answered >= asked_->first_round;
  });
  return found == heard_.end() ? nullptr : &found->view;
}

// Returns whether an earlier coordinator, which knew this rank's call, may have decided. Without
// that call the communicator cannot be made.
bool ShrinkAgreement::may_be_made(const ShrinkSubject& subject) const {
  if (!wants(self_, subject) || mutated(Mutant::shrink_forget)) return false;
  for (const Rank rank : kept(subject)) {
    const ShrinkSubject& theirs = heard(rank).wish.subject;
    const bool ahead =
        heard(rank).open && theirs.excluded == subject.excluded && theirs.ordinal > subject.ordinal;
    if (rank < self_ || ahead) return true;
  }
  return false;
}

// Requires that this rank has asked all.
std::vector<Rank> ShrinkAgreement::unanswered(const ShrinkSubject& subject) const {
  std::vector<Rank> silent;
  for (const Rank rank : kept(subject)) {
    const bool answered = heard(rank).answered >= asked_->first_round;
    if (rank != self_ && !gone(rank) && !answered) silent.push_back(rank);
  }
  return silent;
}

std::optional<ShrinkDecision> ShrinkAgreement::find_lost(const ShrinkSubject& subject) const {
  for (const Rank rank : kept(subject)) {
    if (!gone(rank)) continue;
    const ShrinkOutcome how = *gone_[static_cast<size_t>(rank.value())];
    std::vector<Rank> all;
    for (const Rank each : kept(subject)) {
      if (gone(each) && gone_[static_cast<size_t>(each.value())] == how) all.push_back(each);
    }
    return outcome_of(subject, how, std::move(all));
  }
  for (const Rank rank : kept(subject)) {
    if (wants(rank, subject) && heard(rank).wish.withdrawn) {
      return outcome_of(subject, ShrinkOutcome::aborted, {rank});
    }
  }
  return std::nullopt;
}

// A call that has ended in conflict while this one waited conflicts with this one, too.
std::optional<ShrinkDecision> ShrinkAgreement::find_conflict(const ShrinkSubject& subject) {
  for (const Rank rank : kept(subject)) {
    const Heard& theirs = heard(rank);
    const bool counts = theirs.open || (theirs.in_conflict && theirs.since >= began(subject));
    if (!counts || theirs.wish.subject == subject) continue;
    ShrinkDecision decision = outcome_of(subject, ShrinkOutcome::lists_differ, {rank});
    decision.other = theirs.wish.subject.excluded;
    // The rank that decides about the other list may wait for this one's call.
    if (wants(self_, subject) && !has(decision.other, self_)) {
      ShrinkAnswer unasked;
      unasked.wish = own_wish();
      send(coordinator(theirs.wish.subject), std::move(unasked));
    }
    return decision;
  }
  return std::nullopt;
}

std::optional<ShrinkDecision> ShrinkAgreement::wait_for_calls(const ShrinkSubject& subject,
                                                              TimeNs now) {
  std::vector<Rank> silent;
  for (const Rank rank : kept(subject)) {
    if (!wants(rank, subject)) silent.push_back(rank);
  }
  if (silent.empty() || (mutated(Mutant::shrink_early) && wants(self_, subject))) {
    ShrinkDecision decision = outcome_of(subject, ShrinkOutcome::made);
    decision.view = own_view_;
    return decision;
  }
  const size_t missing = silent.size();
  const TimeNs since = began(subject);
  if (now >= since + patience_) {
    return outcome_of(subject, ShrinkOutcome::not_called, std::move(silent));
  }
  next_ = std::min(next_, since + patience_);
  if (now < since + kAskAfter) {
    next_ = std::min(next_, since + kAskAfter);
    tally_ = Tally{subject, missing};
    return std::nullopt;
  }
  if (!asked_ || now >= asked_->again_at) ask(subject, false, now);
  next_ = std::min(next_, asked_->again_at);
  return std::nullopt;
}

// `all`: also ranks that have called, because this one needs their promise.
void ShrinkAgreement::ask(const ShrinkSubject& subject, bool all, TimeNs now) {
  const ShrinkSubject own = own_wish().subject;
  const bool again = asked_ && asked_->subject == own && (asked_->all || !all);
  if (again && all) return;
  ++round_;
  if (!again) asked_ = Asked{.subject = own, .first_round = round_, .all = all, .since = now};
  asked_->again_at = now + kAskAgain;
  for (const Rank rank : kept(subject)) {
    if (all || !wants(rank, subject)) send(rank, ShrinkQuestion{round_, asked_->all, own});
  }
}

void ShrinkAgreement::tell(ShrinkDecision decision, TimeNs now) {
  decision.by = self_;
  const bool made_now = decision.outcome == ShrinkOutcome::made;
  for (const Rank rank : kept(decision.subject)) {
    Heard& theirs = heard(rank);
    if (!wants(rank, decision.subject)) continue;
    decision.serial = theirs.wish.serial;
    if (rank == self_) {
      adopt(decision, now);
      continue;
    }
    theirs.open = false;
    theirs.decided = theirs.wish.serial;
    theirs.in_conflict = decision.outcome == ShrinkOutcome::lists_differ;
    theirs.since = now;
    send(rank, decision);
  }
  decision.serial = 0;
  for (const Rank rank : decision.subject.excluded) {
    if (made_now) send(rank, decision);
  }
  // A call that only an answer told of may be over by the next decision.
  for (Heard& each : heard_) each.open = each.open && each.direct;
}

}  // namespace r2ccl
