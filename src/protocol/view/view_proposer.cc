// A rank as the proposer: the course of an attempt.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "protocol/view/view_agreement.h"

namespace r2ccl {
namespace {

constexpr uint64_t kMarginMax = uint64_t{1} << 20;

}  // namespace

void ViewAgreement::begin(TimeNs now) {
  const auto ranks = static_cast<uint64_t>(rank_count_);
  const uint64_t turn = highest_ballot_ / ranks + 1;
  attempt_ = {};
  attempt_.ask.ballot = turn * ranks + static_cast<uint64_t>(self_.value());
  attempt_.ask.round = 0;
  highest_ballot_ = attempt_.ask.ballot;
  answers_.assign(gone_.size(), {});
  must_resolve_ = true;  // from now on this rank must bring its attempt to an end
  ++attempts_;
  ask_all(Phase::collect, ViewStage::collect, std::nullopt, now);
}

void ViewAgreement::ask_all(Phase phase, ViewStage stage, std::optional<ViewRecord> proposal,
                            TimeNs now) {
  attempt_.phase = phase;
  attempt_.began = now;
  attempt_.resend_at = now + kResend;
  attempt_.ask.round += 1;
  attempt_.ask.stage = stage;
  attempt_.ask.known = latest().version;
  attempt_.ask.proposal = std::move(proposal);
  for (Answer& each : answers_) each.current = each.accepted = false;
  member_.obey(attempt_.ask);
  note(self_, member_.answer(latest().version));
  for (int32_t rank = 0; rank < rank_count_; ++rank) send(Rank(rank), attempt_.ask);
}

void ViewAgreement::note(Rank from, const ViewAnswer& answer) {
  Answer& known = answers_[static_cast<size_t>(from.value())];
  known.version = std::max(known.version, answer.version);
  known.bound = std::max(known.bound, answer.bound);
  if (answer.ballot != attempt_.ask.ballot || answer.round != attempt_.ask.round) return;
  known.current = true;
  known.accepted = known.accepted || answer.accepted;
}

bool ViewAgreement::all_answered() const {
  return all_living([](const Answer& answer) { return answer.current; });
}

// Sends again what has had no effect yet.
void ViewAgreement::resend() {
  if (mutated(Mutant::view_send_once)) return;
  for (int32_t i = 0; i < rank_count_; ++i) {
    const Answer& answer = answers_[static_cast<size_t>(i)];
    if (attempt_.phase != Phase::spread && !answer.current) send(Rank(i), attempt_.ask);
    if ((answer.current || attempt_.phase == Phase::spread) && is_behind(answer)) {
      send(Rank(i), ViewCommit{attempt_.ask.ballot, latest()});
    }
  }
}

void ViewAgreement::step(TimeNs now) {
  while (step_once(now)) {
  }
}

// Returns whether the attempt has moved on.
bool ViewAgreement::step_once(TimeNs now) {
  const uint32_t round = attempt_.ask.round;
  const Phase phase = attempt_.phase;
  // A higher ballot, also one that this rank has obeyed itself, ends every lower attempt.
  const bool overtaken = member_.ballot() > attempt_.ask.ballot && !mutated(Mutant::view_overtaken);
  if (overtaken && phase != Phase::idle) {
    give_way(now);
    return true;
  }
  switch (phase) {
    case Phase::idle:
      return false;
    case Phase::collect:
      if (all_answered()) decide(now);
      break;
    case Phase::propose:
      step_proposal(now);
      break;
    case Phase::release:
      if (all_answered()) end();
      break;
    case Phase::spread:
      note(self_, member_.answer(latest().version));  // another proposer may have told it more
      if (all_living([this](const Answer& answer) { return !is_behind(answer); })) end();
      break;
  }
  return attempt_.phase != phase || attempt_.ask.round != round;
}

// All members have answered. If one of them knew a committed view, this rank knows it now, and all
// members must know it before the next one.
void ViewAgreement::decide(TimeNs now) {
  note(self_, member_.answer(latest().version));
  if (!all_living([this](const Answer& answer) { return !is_behind(answer); })) {
    attempt_.phase = Phase::spread;
    return resend();
  }
  if (!wanted_ || any_left_ || *wanted_ == latest().view) {
    return ask_all(Phase::release, ViewStage::release, std::nullopt, now);
  }
  uint64_t bound = 0;
  for (const Answer& answer : answers_) bound = std::max(bound, answer.bound);
  ViewRecord next{latest().version + 1, std::max(bound, member_.bound()) + attempt_.margin,
                  *wanted_};
  ask_all(Phase::propose, ViewStage::propose, std::move(next), now);
}

// A member that has bound the start refuses. The others wait meanwhile, so the next start is
// proposed at once, further ahead.
void ViewAgreement::step_proposal(TimeNs now) {
  const ViewRecord& proposal = *attempt_.ask.proposal;
  if (any_left_) return ask_all(Phase::release, ViewStage::release, std::nullopt, now);
  if (all_living([](const Answer& answer) { return answer.current && answer.accepted; })) {
    return commit(now);
  }
  if (mutated(Mutant::view_commit_early) &&
      std::ranges::any_of(answers_, [](const Answer& each) { return each.accepted; })) {
    return commit(now);
  }
  const bool refused =
      !all_living([](const Answer& answer) { return !answer.current || answer.accepted; });
  if (!refused) return;
  uint64_t bound = 0;
  for (const Answer& answer : answers_) bound = std::max(bound, answer.bound);
  if (bound < proposal.start) {
    // It refuses for another reason: it lags too far behind.
    back_off(now);
    return ask_all(Phase::release, ViewStage::release, std::nullopt, now);
  }
  attempt_.margin = std::min(attempt_.margin * 2, kMarginMax);
  decide(now);
}

void ViewAgreement::commit(TimeNs now) {
  const ViewRecord record = *attempt_.ask.proposal;
  const Status learned = member_.learn(record);
  R2CCL_CHECK(learned.ok());
  note(self_, member_.answer(record.version));
  if (wanted_ && *wanted_ == record.view) wanted_.reset();
  attempt_.phase = Phase::spread;
  attempt_.began = now;
  attempt_.resend_at = now + kResend;
  backoff_ = kBackoff;
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    send(Rank(rank), ViewCommit{attempt_.ask.ballot, record});
  }
}

// The next attempt begins with the next pass.
void ViewAgreement::end() {
  attempt_ = {};
  must_resolve_ = false;
  if (wanted_ && *wanted_ == latest().view) wanted_.reset();
}

// A higher ballot is under way. This rank tries again later, because its own proposal may still
// keep members from binding, and the other proposer may fail. Ranks wait for different times.
void ViewAgreement::give_way(TimeNs now) {
  attempt_ = {};
  back_off(now);
}

void ViewAgreement::back_off(TimeNs now) {
  const TimeNs share = backoff_ * self_.value() / rank_count_;
  retry_at_ = now + backoff_ + share;
  backoff_ = std::min(2 * backoff_, kBackoffMax);
}

// The members that have accepted wait. Rather than for a silent rank, they go on with the old view.
void ViewAgreement::check_patience(TimeNs now) {
  if (attempt_.phase != Phase::propose || now - attempt_.began < kPatience) return;
  back_off(now);
  ask_all(Phase::release, ViewStage::release, std::nullopt, now);
}

}  // namespace r2ccl
