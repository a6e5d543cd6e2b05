#include "transport/faulty/fault_plan.h"

#include <algorithm>

namespace r2ccl {
namespace {

// Calls visit(rule) for the rules of the local end: by device name, by address and for every NIC.
template <typename Rules, typename Visit>
void for_each_local_rule(Rules& rules, const FaultTarget& target, Visit&& visit) {
  const auto visit_named = [&](const std::string& name) {
    if (const auto found = rules.find(name); found != rules.end()) visit(found->second);
  };
  visit_named(FaultPlan::kEveryNic);
  if (!target.device.empty()) visit_named(target.device);
  if (!target.local.empty() && target.local != target.device) visit_named(target.local);
}

}  // namespace

void FaultPlan::set(const std::string& nic, const NicFault& fault) {
  std::lock_guard lock(mutex_);
  Rule& rule = rules_[nic];
  if (rule.fault.bytes_per_s != fault.bytes_per_s) {
    for (TokenBucket& bucket : rule.buckets) bucket = TokenBucket(fault.bytes_per_s);
  }
  rule.fault = fault;
  version_.fetch_add(1, std::memory_order_release);
  for (Poller* poller : pollers_) poller->wake();
}

void FaultPlan::reset_at(const std::string& nic, Direction direction, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  rules_[nic].reset_at[index_of(direction)] = bytes;
}

void FaultPlan::fail_operation(uint64_t n, int error) {
  std::lock_guard lock(mutex_);
  operations_until_failure_ = n;
  operation_error_ = error;
  operation_failed_ = false;
}

bool FaultPlan::operation_has_failed() const {
  std::lock_guard lock(mutex_);
  return operation_failed_;
}

NicFault FaultPlan::fault_of(const FaultTarget& target) const {
  std::lock_guard lock(mutex_);
  NicFault out;
  for_each_local_rule(rules_, target, [&](const Rule& rule) {
    out.down |= rule.fault.down;
    out.hole_tx |= rule.fault.hole_tx;
    out.hole_rx |= rule.fault.hole_rx;
    out.short_io |= rule.fault.short_io;
    out.no_buffers |= rule.fault.no_buffers;
    out.no_events |= rule.fault.no_events;
    out.bytes_per_s = std::max(out.bytes_per_s, rule.fault.bytes_per_s);
    out.delay_ns += rule.fault.delay_ns;
    out.queue_bytes = std::max(out.queue_bytes, rule.fault.queue_bytes);
    if (rule.fault.change.order > rule.changes_done) out.change = rule.fault.change;
  });
  // Bytes that the far NIC does not send do not arrive here, and the other way round.
  if (const auto remote = rules_.find(target.remote); remote != rules_.end()) {
    const NicFault& far = remote->second.fault;
    out.hole_rx |= far.hole_tx || far.down;
    out.hole_tx |= far.hole_rx || far.down;
  }
  return out;
}

std::optional<uint64_t> FaultPlan::reset_after(const FaultTarget& target,
                                               Direction direction) const {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> out;
  for_each_local_rule(rules_, target, [&](const Rule& rule) {
    const std::optional<uint64_t>& limit = rule.reset_at[index_of(direction)];
    if (limit && (!out || *limit < *out)) out = limit;
  });
  return out;
}

void FaultPlan::reset_happened(const FaultTarget& target, Direction direction) {
  std::lock_guard lock(mutex_);
  for_each_local_rule(rules_, target,
                      [&](Rule& rule) { rule.reset_at[index_of(direction)].reset(); });
}

bool FaultPlan::take_change(const FaultTarget& target, uint64_t order) {
  std::lock_guard lock(mutex_);
  bool taken = false;
  for_each_local_rule(rules_, target, [&](Rule& rule) {
    if (rule.fault.change.order != order || rule.changes_done >= order) return;
    rule.changes_done = order;
    taken = true;
  });
  return taken;
}

int FaultPlan::next_operation() {
  std::lock_guard lock(mutex_);
  if (operations_until_failure_ == 0 || --operations_until_failure_ > 0) return 0;
  operation_failed_ = true;
  return operation_error_;
}

size_t FaultPlan::tokens(const FaultTarget& target, Direction direction, TimeNs now) {
  std::lock_guard lock(mutex_);
  size_t out = SIZE_MAX;
  for_each_local_rule(rules_, target, [&](Rule& rule) {
    out = std::min(out, rule.buckets[index_of(direction)].available(now));
  });
  return out;
}

void FaultPlan::spend(const FaultTarget& target, Direction direction, size_t bytes) {
  std::lock_guard lock(mutex_);
  for_each_local_rule(rules_, target,
                      [&](Rule& rule) { rule.buckets[index_of(direction)].spend(bytes); });
}

void FaultPlan::add_poller(Poller* poller) {
  std::lock_guard lock(mutex_);
  pollers_.push_back(poller);
}

void FaultPlan::remove_poller(Poller* poller) {
  std::lock_guard lock(mutex_);
  std::erase(pollers_, poller);
}

}  // namespace r2ccl
