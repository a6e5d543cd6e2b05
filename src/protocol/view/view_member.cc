#include "protocol/view/view_member.h"

#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutant.h"

namespace r2ccl {

const View& ViewMember::later_view_of(uint64_t number) const {
  size_t at = records_.size() - 1;
  while (at > 0 && records_[at].start > number) --at;
  return records_[at].view;
}

void ViewMember::drop_old_records() {
  while (records_.size() > 1 && records_[1].start <= bound_ + 1) records_.erase(records_.begin());
}

void ViewMember::hold(std::optional<Held> held) {
  held_ = std::move(held);
  gate_ = held_ && !mutated(Mutant::view_no_gate) ? held_->proposal.start : UINT64_MAX;
}

bool ViewMember::accepts(const ViewRecord& proposal) const {
  if (proposal.version != latest().version + 1) return false;
  if (records_.size() >= kViewRecordsMax) return false;
  return proposal.start > bound_ || mutated(Mutant::view_accept_bound);
}

void ViewMember::obey(const ViewAsk& ask) {
  const auto asked = std::pair(ask.ballot, ask.round);
  if (asked <= std::pair(ballot_, round_)) return;
  ballot_ = ask.ballot;
  round_ = ask.round;
  // To collect is no decision: the member keeps its promise until the new proposer has one.
  if (ask.stage == ViewStage::collect) return;
  // The proposer has heard all members, so no proposal of an earlier question can be committed.
  if (!mutated(Mutant::view_keep_gate)) hold(std::nullopt);
  if (ask.proposal && accepts(*ask.proposal)) hold(Held{ballot_, round_, *ask.proposal});
}

Status ViewMember::learn(const ViewRecord& record) {
  if (record.version <= latest().version) return {};
  if (record.version != latest().version + 1) {
    return {Code::remote, "a view of version " + std::to_string(record.version) +
                              ", but the latest one here is " + std::to_string(latest().version)};
  }
  if (record.start <= bound_ && !mutated(Mutant::view_accept_bound) &&
      !mutated(Mutant::view_commit_early) && !mutated(Mutant::view_no_gate)) {
    return {Code::remote, "a view from collective " + std::to_string(record.start) +
                              " on, but the plan of collective " + std::to_string(bound_) +
                              " is bound here"};
  }
  // Nothing is bound from this start on, so a view that began there or later never takes effect.
  while (records_.size() > 1 && records_.back().start >= record.start) records_.pop_back();
  if (records_.back().start >= record.start || record.start <= bound_ + 1) records_.clear();
  records_.push_back(record);
  if (held_ && held_->proposal.version <= record.version) hold(std::nullopt);
  return {};
}

ViewAnswer ViewMember::answer(uint64_t known) const {
  ViewAnswer answer;
  answer.ballot = ballot_;
  answer.round = round_;
  answer.accepted = accepted(ballot_, round_);
  answer.held = held();
  answer.bound = bound_;
  answer.version = latest().version;
  if (answer.version > known) answer.record = latest();
  return answer;
}

void ViewMember::check_invariants() const {
  R2CCL_CHECK(!records_.empty() && records_.size() <= kViewRecordsMax);
  for (size_t i = 1; i < records_.size(); ++i) {
    R2CCL_CHECK(records_[i].version > records_[i - 1].version);
    R2CCL_CHECK(records_[i].start > records_[i - 1].start);
    R2CCL_CHECK(records_[i].start > bound_ + 1);
  }
  R2CCL_CHECK(!held_ || held_->proposal.version == latest().version + 1);
  R2CCL_CHECK(!held_ || held_->ballot <= ballot_);
}

uint64_t ViewMember::fingerprint() const {
  uint64_t hash = hash_of({bound_, ballot_, round_, held(), held_ ? held_->round : 0, gate_});
  for (const ViewRecord& record : records_) {
    hash = hash_of({hash, record.version, record.start, record.view.hash()});
  }
  return held_ ? hash_of({hash, held_->proposal.view.hash()}) : hash;
}

}  // namespace r2ccl
