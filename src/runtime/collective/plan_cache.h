// The compiled plans that a communicator used last. Training jobs repeat a handful of shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "plan/plan.h"
#include "runtime/collective/compiled_plan.h"

namespace r2ccl {

class PlanCache {
 public:
  // Keeps the plans used last: at most `entries_max` plans with at most `steps_max` steps together,
  // but always the latest one.
  PlanCache(size_t entries_max, size_t steps_max)
      : entries_max_(entries_max), steps_max_(steps_max) {}

  struct Entry {
    PlanKey key;
    uint64_t hash = 0;  // plan_hash() of the key, which costs more than the search
    CompiledPlan plan;
    bool used = false;  // for the caller; false when it is built
  };
  // Returns the plan, and builds it first if it is missing. The reference is valid until the next
  // call.
  Entry& get(const PlanKey& key, Rank rank);

  size_t size() const { return entries_.size(); }

 private:
  const size_t entries_max_;
  const size_t steps_max_;
  size_t steps_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace r2ccl
