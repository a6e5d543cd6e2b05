#include "runtime/collective/call_history.h"

#include "base/hash.h"
#include "runtime/collective/pending_call.h"

namespace r2ccl {

std::string describe(const CallRecord& call) {
  if (call.number == 0) return "no collective yet";
  PendingCall pending;
  pending.key = call.key;
  pending.number = call.number;
  pending.name = call.name;
  return describe(pending);
}

const CallRecord& CallHistory::begin(const PlanKey& key, const std::string& name) {
  const uint64_t chain = hash_of({latest().chain, plan_hash(key)});
  ++latest_;
  return records_[latest_ % kRemembered] = {latest_, chain, key, name};
}

const CallRecord* CallHistory::find(uint64_t number) const {
  const CallRecord& record = at(number);
  return number <= latest_ && record.number == number ? &record : nullptr;
}

}  // namespace r2ccl
