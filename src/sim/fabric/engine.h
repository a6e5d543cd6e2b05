// The shared parts of one simulation: its clock, its events, its random numbers and its trace.
#pragma once

#include <cstdint>
#include <utility>

#include "sim/fabric/event_queue.h"
#include "sim/fabric/random.h"
#include "sim/fabric/virtual_clock.h"

namespace r2ccl::sim {

// A running hash (FNV-1a over words) of all events: equal hashes mean equal runs.
class TraceHash {
 public:
  void mix(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001b3;
    hash_ ^= hash_ >> 32;  // lets high bits of the word reach the low ones
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

// The first word of each trace entry.
enum class TraceKind : uint8_t {
  segment_delivered = 1,
  packet_dropped,
  side_changed,
  fault_changed,
  actor_ran,
};

class Engine {
 public:
  Engine(uint64_t seed, VirtualClock& clock) : clock_(clock), random_(seed) {}

  TimeNs now() const { return clock_.now(); }
  void at(TimeNs time, EventQueue::Action action) {
    queue_.schedule(time < now() ? now() : time, std::move(action));
  }
  TimeNs next_event() const { return queue_.next_time(); }
  uint64_t events_run() const { return events_run_; }

  // Runs the next event if it lies at or before `deadline`. Otherwise advances to `deadline` and
  // returns false. A deadline of kNever without an event leaves the clock as it is.
  bool step(TimeNs deadline) {
    if (queue_.empty() || queue_.next_time() > deadline) {
      if (deadline != kNever && deadline > now()) clock_.advance_to(deadline);
      return false;
    }
    clock_.advance_to(queue_.next_time());
    ++events_run_;
    queue_.pop()();
    return true;
  }

  Random& random() { return random_; }
  void trace(TraceKind kind, uint64_t a, uint64_t b) {
    trace_.mix(static_cast<uint64_t>(now()));
    trace_.mix(static_cast<uint64_t>(kind));
    trace_.mix(a);
    trace_.mix(b);
  }
  uint64_t trace_hash() const { return trace_.value(); }

 private:
  VirtualClock& clock_;
  EventQueue queue_;
  Random random_;
  TraceHash trace_;
  uint64_t events_run_ = 0;
};

}  // namespace r2ccl::sim
