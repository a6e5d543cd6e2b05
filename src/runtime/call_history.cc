#include "runtime/call_history.h"

#include "base/hash.h"

namespace r2ccl {

std::string describe(const CallRecord& call) {
  if (call.number == 0) return "no collective yet";
  return "collective " + std::to_string(call.number) + " (" + describe(call.key) + ")";
}

const CallRecord& CallHistory::begin(const PlanKey& key) {
  const uint64_t chain = hash_of({latest().chain, plan_hash(key)});
  ++latest_;
  return records_[latest_ % kRemembered] = {latest_, chain, key};
}

const CallRecord* CallHistory::find(uint64_t number) const {
  const CallRecord& record = at(number);
  return number <= latest_ && record.number == number ? &record : nullptr;
}

}  // namespace r2ccl
