#include "protocol/shrink/shrink_agreement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutant.h"

namespace r2ccl {

ShrinkAgreement::ShrinkAgreement(Rank self, int32_t rank_count, TimeNs patience)
    : self_(self),
      patience_(patience),
      gone_(static_cast<size_t>(rank_count)),
      heard_(static_cast<size_t>(rank_count)) {
  R2CCL_CHECK(self.value() >= 0 && self.value() < rank_count);
}

std::vector<Rank> ShrinkAgreement::kept(const ShrinkSubject& subject) const {
  std::vector<Rank> ranks;
  for (size_t i = 0; i < heard_.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    if (!has(subject.excluded, rank)) ranks.push_back(rank);
  }
  return ranks;
}

Rank ShrinkAgreement::coordinator(const ShrinkSubject& subject) const {
  for (size_t i = 0; i < heard_.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    if (!gone(rank) && !has(subject.excluded, rank)) return rank;
  }
  return self_;
}

void ShrinkAgreement::send(Rank to, ShrinkMessage message) {
  if (to != self_ && !gone(to)) sends_.push_back({to, std::move(message)});
}

std::vector<ShrinkSend> ShrinkAgreement::take_sends() {
  return std::exchange(sends_, {});
}

ShrinkWish ShrinkAgreement::own_wish() const {
  return heard(self_).open ? heard(self_).wish : ShrinkWish();
}

void ShrinkAgreement::call(std::vector<Rank> excluded, const View& view, TimeNs now) {
  Heard& own = heard(self_);
  R2CCL_CHECK(!own.open && !has(excluded, self_));
  own.wish = {own.wish.serial + 1, false, {excluded, made_.count(excluded)}};
  own.open = own.direct = true;
  own.in_conflict = false;
  own.since = now;
  own_view_ = fitting(view);
  outcome_.reset();
  asked_.reset();  // earlier answers say nothing of this call
  told_ = kNoRank;
  progress(now);
}

void ShrinkAgreement::withdraw(TimeNs now) {
  if (!heard(self_).open) return;
  heard(self_).wish.withdrawn = true;
  told_ = kNoRank;
  progress(now);
}

void ShrinkAgreement::tell_wish() {
  const Heard& own = heard(self_);
  if (!own.open) return;
  const Rank decides = coordinator(own.wish.subject);
  const bool follows = told_ == kNoRank || !mutated(Mutant::shrink_no_takeover);
  if (decides == told_ || !follows) return;
  told_ = decides;
  send(decides, own.wish);
}

Status ShrinkAgreement::check(Rank from, const ShrinkMessage& message) const {
  const auto refused = [](const char* what) {
    return Status(Code::remote, std::string("a message about a smaller communicator ") + what);
  };
  if (const auto* wish = std::get_if<ShrinkWish>(&message)) {
    const auto& excluded = wish->subject.excluded;
    if (wish->serial == 0 || has(excluded, from) || has(excluded, self_)) {
      return refused("of a rank that has not called, or not for this one");
    }
  }
  if (const auto* answer = std::get_if<ShrinkAnswer>(&message)) {
    if (has(answer->wish.subject.excluded, from)) return refused("of a rank that excludes itself");
    if (answer->round > round_) return refused("that answers what nobody asked");
  }
  if (const auto* decision = std::get_if<ShrinkDecision>(&message)) {
    const bool staying = !has(decision->subject.excluded, from);
    if (!staying || has(decision->subject.excluded, self_) != (decision->serial == 0)) {
      return refused("with a decision that is none of this rank's");
    }
  }
  return {};
}

Status ShrinkAgreement::on_message(Rank from, const ShrinkMessage& message, TimeNs now) {
  if (from == self_ || gone(from)) return {};
  R2CCL_RETURN_IF_ERROR(check(from, message));
  if (const auto* wish = std::get_if<ShrinkWish>(&message)) {
    on_wish(from, *wish, true, now);
    if (tally_ && !wish->withdrawn && tally_->add(*wish)) return {};
  } else if (const auto* question = std::get_if<ShrinkQuestion>(&message)) {
    on_question(from, *question);
  } else if (const auto* answer = std::get_if<ShrinkAnswer>(&message)) {
    on_answer(from, *answer, now);
  } else {
    on_decision(std::get<ShrinkDecision>(message), now);
  }
  progress(now);
  return {};
}

// A call that has ended may still be told by a message that was under way.
void ShrinkAgreement::on_wish(Rank from, const ShrinkWish& wish, bool direct, TimeNs now) {
  Heard& theirs = heard(from);
  const bool ended = wish.serial <= theirs.decided && !mutated(Mutant::shrink_stale);
  if (wish.serial == 0 || ended || wish.serial < theirs.wish.serial) return;
  const bool known = theirs.open && wish.serial == theirs.wish.serial;
  if (known || !direct) tally_.reset();
  if (!known) theirs.since = now;
  theirs.wish = wish;
  theirs.open = true;
  theirs.direct = direct || (known && theirs.direct);
  theirs.in_conflict = false;
}

void ShrinkAgreement::on_question(Rank from, const ShrinkQuestion& question) {
  ShrinkAnswer answer;
  answer.round = question.round;
  answer.wish = own_wish();
  if (question.takes_over) promises_.add(question.subject, from);
  if (const View* view = made_.view_of(question.subject)) {
    answer.made = true;
    answer.view = *view;
  }
  send(from, std::move(answer));
}

void ShrinkAgreement::on_answer(Rank from, const ShrinkAnswer& answer, TimeNs now) {
  Heard& theirs = heard(from);
  on_wish(from, answer.wish, false, now);
  if (answer.round < theirs.answered) return;
  theirs.answered = answer.round;
  theirs.made = answer.made;
  theirs.view = answer.view;
}

void ShrinkAgreement::on_decision(const ShrinkDecision& decision, TimeNs now) {
  if (decision.serial == 0) {
    if (decision.outcome != ShrinkOutcome::made) return;
    excluded_by_ = kept(decision.subject);
    // These wait for this rank no more.
    const auto stays = [&](Rank rank) { return !has(heard(self_).wish.subject.excluded, rank); };
    if (std::ranges::any_of(excluded_by_, stays)) withdraw(now);
    return;
  }
  // A communicator that is made is made, whichever call the sender knew of.
  const Heard& own = heard(self_);
  const bool same_call =
      decision.outcome == ShrinkOutcome::made || decision.serial == own.wish.serial;
  const bool mine = own.open && same_call && decision.subject == own.wish.subject;
  const bool permitted = promises_.permit(decision) || mutated(Mutant::shrink_late_commit);
  if (mine && permitted) return adopt(decision, now);
  const bool ghost =
      decision.outcome == ShrinkOutcome::made && std::erase(given_up_, decision.subject) > 0;
  if (ghost) ghosts_.push_back(decision.subject);
}

// The call that waits has this outcome.
void ShrinkAgreement::adopt(const ShrinkDecision& decision, TimeNs now) {
  Heard& own = heard(self_);
  own.open = false;
  own.decided = own.wish.serial;
  own.in_conflict = decision.outcome == ShrinkOutcome::lists_differ;
  own.since = now;
  outcome_ = decision;
  if (decision.outcome == ShrinkOutcome::made) made_.add(decision);
}

std::vector<ShrinkSend> ShrinkAgreement::last_words() const {
  std::vector<ShrinkSend> words;
  if (mutated(Mutant::shrink_silent_leave)) return words;
  for (const MadeCommunicators::Made& each : made_.all()) {
    const ShrinkDecision told{.serial = 1,
                              .subject = {each.excluded, each.count - 1},
                              .by = each.by,
                              .outcome = ShrinkOutcome::made,
                              .ranks = {},
                              .other = {},
                              .view = each.view};
    for (const Rank rank : kept(told.subject)) {
      if (rank != self_ && !gone(rank)) words.push_back({rank, told});
    }
  }
  return words;
}

void ShrinkAgreement::on_gone(Rank rank, ShrinkOutcome how, TimeNs now) {
  R2CCL_CHECK(rank != self_);
  if (gone(rank)) return;
  gone_[static_cast<size_t>(rank.value())] = how;
  heard(rank).open = heard(rank).in_conflict = false;
  std::erase_if(sends_, [rank](const ShrinkSend& each) { return each.to == rank; });
  progress(now);
}

void ShrinkAgreement::progress(TimeNs now) {
  tell_wish();
  tally_.reset();
  next_ = kNever;
  const auto decide_one = [&] {
    for (const ShrinkSubject& subject : subjects()) {
      if (auto decision = decide(subject, now)) {
        tell(std::move(*decision), now);
        return true;
      }
    }
    return false;
  };
  while (decide_one()) {
  }
}

uint64_t ShrinkAgreement::fingerprint() const {
  const auto of_ranks = [](const std::vector<Rank>& ranks) {
    uint64_t hash = 0;
    for (const Rank rank : ranks) hash = hash_of({hash, static_cast<uint64_t>(rank.value())});
    return hash;
  };
  uint64_t hash = hash_of({static_cast<uint64_t>(told_.value() + 1), round_,
                           static_cast<uint64_t>(next_), outcome_.has_value()});
  if (outcome_) {
    hash = hash_of({hash, static_cast<uint64_t>(outcome_->outcome), outcome_->serial});
  }
  for (const auto& gone : gone_) hash = hash_of({hash, gone.has_value()});
  for (const auto& each : promises_.all()) {
    hash = hash_of({hash, each.subject.ordinal, of_ranks(each.subject.excluded),
                    static_cast<uint64_t>(each.coordinator.value())});
  }
  for (const Heard& each : heard_) {
    hash = hash_of({hash, each.wish.serial, each.wish.withdrawn, each.wish.subject.ordinal,
                    of_ranks(each.wish.subject.excluded), each.open, each.direct, each.in_conflict,
                    static_cast<uint64_t>(each.since), each.decided, each.answered, each.made});
  }
  for (const auto& each : made_.all()) hash = hash_of({hash, of_ranks(each.excluded), each.count});
  if (!asked_) return hash;
  return hash_of({hash, asked_->first_round, static_cast<uint64_t>(asked_->since),
                  static_cast<uint64_t>(asked_->again_at)});
}

}  // namespace r2ccl
