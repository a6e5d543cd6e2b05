#include "protocol/view/view_agreement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// A rank that begins a million attempts in a second needs a million years for as many.
constexpr uint64_t kBallotMax = uint64_t{1} << 62;

}  // namespace

ViewAgreement::ViewAgreement(Rank self, int32_t rank_count, ViewRecord first)
    : self_(self),
      rank_count_(rank_count),
      member_(std::move(first)),
      gone_(static_cast<size_t>(rank_count)) {
  R2CCL_CHECK(self.value() >= 0 && self.value() < rank_count);
}

Rank ViewAgreement::coordinator() const {
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    if (!gone(Rank(rank))) return Rank(rank);
  }
  return self_;
}

std::vector<Rank> ViewAgreement::waits_on() const {
  if (member_.held() == 0) return {};
  const Rank owner = owner_of(member_.held());
  const Rank decides = gone(owner) ? coordinator() : owner;
  if (decides != self_) return {decides};
  std::vector<Rank> silent;
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    const bool answered = !answers_.empty() && answers_[static_cast<size_t>(rank)].current;
    if (!gone(Rank(rank)) && !answered) {
      silent.emplace_back(rank);
    }
  }
  std::erase(silent, self_);
  return silent;
}

bool ViewAgreement::wants_attempt() const {
  return must_resolve_ || (wanted_ && !any_left_ && !(*wanted_ == latest().view));
}

bool ViewAgreement::settled() const {
  return attempt_.phase == Phase::idle && !wants_attempt() && member_.held() == 0;
}

void ViewAgreement::send(Rank to, ViewMessage message) {
  if (to != self_ && !gone(to)) sends_.push_back({to, std::move(message)});
}

std::vector<ViewSend> ViewAgreement::take_sends() {
  return std::exchange(sends_, {});
}

void ViewAgreement::propose(const View& view, TimeNs now) {
  wanted_ = view;
  progress(now);
}

Status ViewAgreement::on_message(Rank from, const ViewMessage& message, TimeNs now) {
  // A late message of a rank that has gone must not keep this one from binding.
  if (from == self_ || gone(from)) return {};
  Status status;
  if (const auto* ask = std::get_if<ViewAsk>(&message)) {
    status = on_ask(from, *ask);
  } else if (const auto* answer = std::get_if<ViewAnswer>(&message)) {
    status = on_answer(from, *answer, now);
  } else {
    status = on_commit(from, std::get<ViewCommit>(message));
  }
  progress(now);
  return status;
}

Status ViewAgreement::check_ballot(Rank from, uint64_t ballot) const {
  const bool possible = ballot >= static_cast<uint64_t>(rank_count_) && ballot <= kBallotMax;
  if (possible && owner_of(ballot) == from) return {};
  return {Code::remote, "a message about a view with the ballot " + std::to_string(ballot) +
                            ", which is none of this rank's"};
}

Status ViewAgreement::on_ask(Rank from, const ViewAsk& ask) {
  R2CCL_RETURN_IF_ERROR(check_ballot(from, ask.ballot));
  highest_ballot_ = std::max(highest_ballot_, ask.ballot);
  member_.obey(ask);
  send(from, member_.answer(ask.known));
  return {};
}

// The proposer of a higher ballot asks all ranks that live, and decides by their answers. So a
// member that has answered it learns from it alone: the commit of a proposer that has died
// meanwhile may come too late. The proposer of that ballot itself is not late before it decides,
// and it has no other source when the one that committed leaves.
Status ViewAgreement::on_commit(Rank from, const ViewCommit& commit) {
  R2CCL_RETURN_IF_ERROR(check_ballot(from, commit.ballot));
  const bool undecided =
      attempt_.phase == Phase::collect && attempt_.ask.ballot == member_.ballot();
  const bool late =
      commit.ballot < member_.ballot() && !undecided && !mutated(Mutant::view_late_commit);
  if (!late) R2CCL_RETURN_IF_ERROR(member_.learn(commit.record));
  send(from, member_.answer(commit.record.version));
  return {};
}

Status ViewAgreement::on_answer(Rank from, const ViewAnswer& answer, TimeNs now) {
  if (std::max(answer.ballot, answer.held) > kBallotMax) {
    return {Code::remote, "an answer about a view with an impossible ballot"};
  }
  highest_ballot_ = std::max({highest_ballot_, answer.ballot, answer.held});
  const bool idle = attempt_.phase == Phase::idle;
  // The member asks for a decision. If this rank does not know yet that the proposer has gone, the
  // member asks again.
  if (idle && held_by_gone(answer.held)) must_resolve_ = true;
  if (idle) return {};
  if (answer.ballot > attempt_.ask.ballot && !mutated(Mutant::view_overtaken)) {
    give_way(now);
    return {};
  }
  if (answer.record && answer.ballot == attempt_.ask.ballot &&
      !mutated(Mutant::view_ignore_commit)) {
    R2CCL_RETURN_IF_ERROR(member_.learn(*answer.record));
  }
  note(from, answer);
  return {};
}

void ViewAgreement::on_gone(Rank rank, bool in_order, TimeNs now) {
  R2CCL_CHECK(rank != self_);
  any_left_ = any_left_ || (in_order && !mutated(Mutant::view_after_leave));
  gone_[static_cast<size_t>(rank.value())] = true;
  std::erase_if(sends_, [rank](const ViewSend& each) { return each.to == rank; });
  progress(now);
}

void ViewAgreement::progress(TimeNs now) {
  const bool orphan = orphaned() && !mutated(Mutant::view_no_takeover);
  if (orphan && coordinator() == self_) must_resolve_ = true;
  if (orphan && coordinator() != self_) {
    if (complain_at_ == kNever || now >= complain_at_) {
      send(coordinator(), member_.answer(latest().version));
      complain_at_ = now + kResend;
    }
  } else {
    complain_at_ = kNever;
  }
  if (attempt_.phase == Phase::idle && wants_attempt() && now >= retry_at_) begin(now);
  step(now);
  check_patience(now);
  if (attempt_.phase != Phase::idle && now >= attempt_.resend_at) {
    resend();
    attempt_.resend_at = now + kResend;
  }
}

TimeNs ViewAgreement::next_timeout() const {
  TimeNs next = complain_at_;
  if (attempt_.phase == Phase::idle) return wants_attempt() ? std::min(next, retry_at_) : next;
  next = std::min(next, attempt_.resend_at);
  return attempt_.phase == Phase::propose ? std::min(next, attempt_.began + kPatience) : next;
}

void ViewAgreement::check_invariants() const {
  member_.check_invariants();
  R2CCL_CHECK(highest_ballot_ >= member_.ballot());
  if (attempt_.phase == Phase::idle) return;
  R2CCL_CHECK(owner_of(attempt_.ask.ballot) == self_);
  R2CCL_CHECK(attempt_.ask.ballot <= highest_ballot_);
  // A proposal under way is of the view after the latest one, and a committed one is the latest.
  if (attempt_.phase == Phase::propose) {
    R2CCL_CHECK(attempt_.ask.proposal->version == latest().version + 1);
  }
}

uint64_t ViewAgreement::fingerprint() const {
  uint64_t hash =
      hash_of({member_.fingerprint(), highest_ballot_, must_resolve_,
               wanted_ ? wanted_->hash() + 1 : 0, any_left_, static_cast<uint64_t>(retry_at_),
               static_cast<uint64_t>(backoff_), static_cast<uint64_t>(complain_at_)});
  for (const bool gone : gone_) hash = hash_of({hash, gone});
  if (attempt_.phase == Phase::idle) return hash;
  hash = hash_of({hash, static_cast<uint64_t>(attempt_.phase), attempt_.ask.ballot,
                  attempt_.ask.round, attempt_.margin, static_cast<uint64_t>(attempt_.began),
                  static_cast<uint64_t>(attempt_.resend_at)});
  if (attempt_.ask.proposal) hash = hash_of({hash, attempt_.ask.proposal->start});
  for (const Answer& each : answers_) {
    hash = hash_of({hash, each.current, each.accepted, each.version, each.bound});
  }
  return hash;
}

}  // namespace r2ccl
