#include "protocol/delivery/state_exchange.h"

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {

void StateExchange::on_acknowledged(uint64_t version) {
  if (version <= acknowledged_ || version > version_) return;
  acknowledged_ = version;
  wait_ = limits::kStateResendMin;
  if (acknowledged_ == version_) retransmit_at_ = kNever;
  if (acknowledged_ >= sent_in_full_ && sent_in_full_ < sent_) {
    sent_ = sent_in_full_;  // the changes for which the last frame had no room
    urgent_ = true;
  }
}

void StateExchange::on_peer_state(uint64_t version, TimeNs now) {
  if (version <= peer_version_) return;
  peer_version_ = version;
  if (acknowledge_at_ == kNever) acknowledge_at_ = now + limits::kVersionAckTime;
}

StateExchange::Due StateExchange::due(TimeNs now) {
  const bool changed = version_ > sent_;
  if (changed && change_due_at_ == kNever) change_due_at_ = now + limits::kDelayedAckTime;
  Due due;
  due.change = changed && (urgent_ || now >= change_due_at_);
  due.retransmit = version_ > acknowledged_ && now >= retransmit_at_;
  due.acknowledge = now >= acknowledge_at_;
  return due;
}

bool StateExchange::due_within(TimeNs duration, TimeNs now) const {
  const bool changed = version_ > sent_;
  return (changed && (urgent_ || change_due_at_ <= now + duration)) ||
         acknowledge_at_ <= now + duration;
}

void StateExchange::postpone(const Due& due, TimeNs now) {
  const TimeNs again = now + limits::kVersionAckTime;
  if (version_ > sent_) change_due_at_ = again;
  if (acknowledge_at_ != kNever) acknowledge_at_ = again;
  if (due.retransmit) retransmit_at_ = again;
}

void StateExchange::on_sent(uint64_t version, TimeNs round_trip, TimeNs wait_min, TimeNs now) {
  R2CCL_CHECK(version <= version_);
  sent_ = version_;
  sent_in_full_ = version;
  peer_acknowledged_ = peer_version_;
  acknowledge_at_ = kNever;
  unreported_bytes_ = unreported_room_ = 0;
  change_due_at_ = kNever;
  urgent_ = false;
  if (mutated(Mutant::state_once)) acknowledged_ = version_;
  if (acknowledged_ < version_) {
    retransmit_at_ = now + std::max(std::max(wait_, wait_min), 2 * round_trip);
  }
}

void StateExchange::hurry(TimeNs now) {
  if (retransmit_at_ != kNever) retransmit_at_ = std::min(retransmit_at_, now);
}

void StateExchange::check_invariants() const {
  R2CCL_CHECK(sent_ <= version_ && sent_in_full_ <= version_);
  R2CCL_CHECK(acknowledged_ <= version_);
  R2CCL_CHECK(peer_acknowledged_ <= peer_version_);
  R2CCL_CHECK(wait_ >= limits::kStateResendMin && wait_ <= limits::kStateResendMax);
}

}  // namespace r2ccl
