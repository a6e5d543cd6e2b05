// The future events, in order of (time, sequence of scheduling), so equal runs cannot differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"

namespace r2ccl::sim {

class EventQueue {
 public:
  using Action = std::function<void()>;

  void schedule(TimeNs at, Action action);
  bool empty() const { return heap_.empty(); }
  // kNever when empty.
  TimeNs next_time() const { return heap_.empty() ? kNever : heap_.front().at; }
  // Takes the first event out. Requires that the queue is not empty.
  Action pop();

 private:
  struct Event {
    TimeNs at;
    uint64_t sequence;
    Action action;
  };
  static bool later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::vector<Event> heap_;
  uint64_t sequence_ = 0;
};

}  // namespace r2ccl::sim
