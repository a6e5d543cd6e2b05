// Runs actors on a fabric: whoever has something to do is run, then time jumps to the next event.
//
// An actor is what would be a thread: a progress function, the time at which it wants to run even
// without an event, and the SimHost whose poller wakes it. Several actors may share a machine
// (Fabric::add_process), not a poller. One seed gives one run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "sim/fabric/fabric.h"

namespace r2ccl::sim {

struct Actor {
  SimHost* host = nullptr;
  std::function<void()> progress;        // one turn; calls poller().wait(events, 0) or any timeout
  std::function<TimeNs()> next_timeout;  // absolute; kNever: only events wake it
};

struct WorldOptions {
  NetworkOptions network;
  // What one turn costs: no actor runs twice at one time, so a loop that never sleeps is slow here
  // as on a machine, and not endless.
  TimeNs turn_ns = 2 * kMicrosecond;
  // A wake-up is late by a random time up to this: the scheduler of the machine.
  TimeNs wakeup_jitter_ns = 0;
};

using ActorId = StrongId<struct ActorTag, uint32_t>;

class World {
 public:
  explicit World(uint64_t seed, const WorldOptions& options = {});

  VirtualClock& clock() { return clock_; }
  Fabric& fabric() { return fabric_; }

  ActorId add_actor(Actor actor);
  // The actor never runs again; call it before what it uses is destroyed.
  void remove_actor(ActorId id);
  // Does not run for this long, while its kernel goes on: preemption.
  void deschedule(ActorId id, TimeNs duration);
  // SIGSTOP and SIGCONT.
  void stop(ActorId id) { deschedule(id, kNever); }
  void resume(ActorId id);
  // kill -9 of a process with its actors.
  void kill(SimHost& host);

  // Runs until `done()` holds (true) or the clock reaches `deadline` (false). done() is asked at
  // the start and after every event.
  bool run_until(const std::function<bool()>& done, TimeNs deadline);
  void run_for(TimeNs duration);

  uint64_t trace_hash() const { return fabric_.trace_hash(); }

 private:
  struct Slot {
    Actor actor;
    bool live = true;
    bool running = false;
    TimeNs not_before = 0;  // descheduled, or the last turn still lasts
    TimeNs scheduled_at =
        kNever;  // of the one event that counts; earlier events find themselves stale
  };
  Slot& slot(ActorId id) { return slots_[id.value()]; }
  void on_ready(ActorId id);
  void consider(ActorId id);
  void schedule(ActorId id, TimeNs wanted);
  void run(ActorId id);

  const WorldOptions options_;
  VirtualClock clock_;
  Fabric fabric_;
  std::vector<Slot> slots_;
};

}  // namespace r2ccl::sim
