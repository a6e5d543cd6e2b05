#include "sim/fabric/event_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace r2ccl::sim {

void EventQueue::schedule(TimeNs at, Action action) {
  heap_.push_back({at, sequence_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

EventQueue::Action EventQueue::pop() {
  R2CCL_CHECK(!heap_.empty());
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Action action = std::move(heap_.back().action);
  heap_.pop_back();
  return action;
}

}  // namespace r2ccl::sim
