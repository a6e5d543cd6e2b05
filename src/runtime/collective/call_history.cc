#include "runtime/collective/call_history.h"

#include "base/hash.h"

namespace r2ccl {

std::string describe(const CallRecord& call) {
  if (call.number == 0) return "no collective yet";
  PendingCall pending;
  pending.key = call.key;
  pending.number = call.number;
  pending.name = call.name;
  return describe(pending);
}

const CallRecord& CallHistory::begin(const PlanKey& key, uint64_t hash, const std::string& name) {
  const uint64_t number = latest_ + 1;
  const uint64_t chain = hash_of({latest().chain, hash});
  // All records have their places still: none has been replaced so far.
  if (number == records_.size() && number < kRemembered) records_.resize(4 * number);
  CallRecord& record = records_[place_of(number)];
  latest_ = number;
  record.number = number;
  record.chain = chain;
  record.key = key;
  record.name = name;
  return record;
}

const CallRecord* CallHistory::find(uint64_t number) const {
  const CallRecord& record = at(number);
  return number <= latest_ && record.number == number ? &record : nullptr;
}

PendingCall pending_call(const CallHistory& history, uint64_t number) {
  PendingCall call;
  call.number = number;
  if (const CallRecord* record = history.find(number); record != nullptr) {
    call.key = record->key;
    call.name = record->name;
  }
  return call;
}

}  // namespace r2ccl
