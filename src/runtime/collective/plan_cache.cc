#include "runtime/collective/plan_cache.h"

#include <algorithm>
#include <iterator>

namespace r2ccl {

PlanCache::Entry& PlanCache::get(const PlanKey& key, Rank rank) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front();
  }
  entries_.push_front({key, plan_hash(key), CompiledPlan(make_plan(key, rank), key.rank_count)});
  steps_ += entries_.front().plan.steps().size();
  while (entries_.size() > 1 && (steps_ > steps_max_ || entries_.size() > entries_max_)) {
    steps_ -= entries_.back().plan.steps().size();
    entries_.pop_back();
  }
  return entries_.front();
}

}  // namespace r2ccl
