// Runs actors on a fabric. The world runs every actor that has something to do, then time jumps to
// the next event.
//
// An actor stands for a thread. It has a progress function, the time at which it wants to run even
// without an event, and the SimHost whose poller wakes it. Several actors may share a machine
// (Fabric::add_process), but not a poller. One seed gives one run.
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
  std::function<void()> progress;        // runs one turn; calls poller().wait() with any timeout
  std::function<TimeNs()> next_timeout;  // an absolute time; kNever: only events wake it
};

struct WorldOptions {
  NetworkOptions network;
  // The duration of one turn. No actor runs twice at one time, so a loop that never sleeps is slow,
  // as on a machine, but not endless.
  TimeNs turn_ns = 2 * kMicrosecond;
  // Each wake-up is late by a random time up to this, as with the scheduler of a machine.
  TimeNs wakeup_jitter_ns = 0;
};

using ActorId = StrongId<struct ActorTag, uint32_t>;

class World {
 public:
  explicit World(uint64_t seed, const WorldOptions& options = {});

  VirtualClock& clock() { return clock_; }
  Fabric& fabric() { return fabric_; }

  ActorId add_actor(Actor actor);
  // Removes the actor, which never runs again. Call it before you destroy the objects that the
  // actor uses.
  void remove_actor(ActorId id);
  // Preempts the actor for this long. Its kernel goes on.
  void deschedule(ActorId id, TimeNs duration);
  // Stop and continue the actor, as SIGSTOP and SIGCONT do.
  void stop(ActorId id) { deschedule(id, kNever); }
  void resume(ActorId id);
  // Kills a process with its actors, as kill -9 does.
  void kill(SimHost& host);

  // Runs until `done()` holds, or the clock reaches `deadline`. Returns whether `done()` holds. The
  // world calls done() at the start and after every event.
  bool run_until(const std::function<bool()>& done, TimeNs deadline);
  void run_for(TimeNs duration);

  uint64_t trace_hash() const { return fabric_.trace_hash(); }

 private:
  struct Slot {
    Actor actor;
    bool live = true;
    bool running = false;
    TimeNs not_before = 0;  // descheduled, or the last turn still lasts
    // The time of the one valid event. Events for other times are stale and do nothing.
    TimeNs scheduled_at = kNever;
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
