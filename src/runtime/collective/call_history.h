// The collectives that a rank has begun, hashed into a chain. Two ranks whose chains are equal at
// some number have made the same calls up to there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/collective/pending_call.h"

namespace r2ccl {

struct CallRecord {
  uint64_t number = 0;  // from 1; 0: no call yet
  uint64_t chain = 0;
  PlanKey key;
  std::string name{};  // the caller's; empty: none
};

// Returns "AllReduce 7 (100 float32, sum)", with the name after the number.
std::string describe(const CallRecord& call);

class CallHistory {
 public:
  const CallRecord& begin(const PlanKey& key, const std::string& name = {}) {
    return begin(key, plan_hash(key), name);
  }
  // `hash`: plan_hash() of the key, where it is known.
  const CallRecord& begin(const PlanKey& key, uint64_t hash, const std::string& name);

  const CallRecord& latest() const { return at(latest_); }
  // Returns null when the call has not begun, or is too old to be remembered.
  const CallRecord* find(uint64_t number) const;

 private:
  static constexpr size_t kRemembered = 256;
  static constexpr size_t kAtFirst = 4;
  size_t place_of(uint64_t number) const { return number & (records_.size() - 1); }
  const CallRecord& at(uint64_t number) const { return records_[place_of(number)]; }

  // By number, modulo the size, which is a power of two and grows with the calls: most
  // communicators make few.
  std::vector<CallRecord> records_ = std::vector<CallRecord>(kAtFirst);
  uint64_t latest_ = 0;
};

// Returns the call with this number, with no details where the history does not remember it.
PendingCall pending_call(const CallHistory& history, uint64_t number);

}  // namespace r2ccl
