#include "sim/cluster/world.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl::sim {

World::World(uint64_t seed, const WorldOptions& options)
    : options_(options), fabric_(seed, clock_, options.network) {}

ActorId World::add_actor(Actor actor) {
  R2CCL_CHECK(options_.turn_ns > 0);
  R2CCL_CHECK(actor.host != nullptr && actor.progress && actor.next_timeout);
  const ActorId id(static_cast<uint32_t>(slots_.size()));
  SimPoller& poller = actor.host->sim_poller();
  slots_.push_back({std::move(actor)});
  poller.set_on_ready([this, id] { on_ready(id); });
  consider(id);
  return id;
}

void World::remove_actor(ActorId id) {
  Slot& gone = slot(id);
  if (!gone.live) return;
  gone.live = false;
  gone.actor.host->sim_poller().set_on_ready(nullptr);
  gone.actor.progress = nullptr;
  gone.actor.next_timeout = nullptr;
}

void World::deschedule(ActorId id, TimeNs duration) {
  Slot& one = slot(id);
  one.not_before = duration == kNever ? kNever : std::max(one.not_before, clock_.now() + duration);
  one.scheduled_at = kNever;
  consider(id);
}

void World::resume(ActorId id) {
  slot(id).not_before = clock_.now();
  consider(id);
}

void World::kill(SimHost& host) {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].live && slots_[i].actor.host == &host) remove_actor(ActorId(i));
  }
  host.kill();
}

// The poller of the actor has events. Any code may cause this call, also the actor's own turn.
void World::on_ready(ActorId id) {
  if (slot(id).live && !slot(id).running) schedule(id, clock_.now());
}

// Schedules the actor for the time at which it wants to run. Does nothing in the middle of its
// turn.
void World::consider(ActorId id) {
  Slot& one = slot(id);
  if (!one.live || one.running || one.not_before == kNever) return;
  const bool ready = one.actor.host->sim_poller().has_events();
  schedule(id, ready ? clock_.now() : one.actor.next_timeout());
}

void World::schedule(ActorId id, TimeNs wanted) {
  Slot& one = slot(id);
  if (wanted == kNever || one.not_before == kNever) return;
  wanted = std::max({wanted, clock_.now(), one.not_before});
  if (wanted >= one.scheduled_at) return;
  if (options_.wakeup_jitter_ns > 0) {
    wanted += static_cast<TimeNs>(
        fabric_.random().below(static_cast<uint64_t>(options_.wakeup_jitter_ns)));
    if (wanted >= one.scheduled_at) return;
  }
  one.scheduled_at = wanted;
  // Captures so little that a std::function needs no memory for it.
  fabric_.at(wanted, [this, id] {
    if (slot(id).live && slot(id).scheduled_at == clock_.now()) run(id);
  });
}

void World::run(ActorId id) {
  slot(id).scheduled_at = kNever;
  slot(id).not_before = clock_.now() + options_.turn_ns;
  slot(id).running = true;
  fabric_.trace(TraceKind::actor_ran, id.value(), 0);
  // Copies the function, because the turn may remove the actor or add others.
  const std::function<void()> progress = slot(id).actor.progress;
  progress();
  slot(id).running = false;
  consider(id);
}

bool World::run_until(const std::function<bool()>& done, TimeNs deadline) {
  // The caller may have changed the timeouts of actors since the last run.
  for (uint32_t i = 0; i < slots_.size(); ++i) consider(ActorId(i));
  while (!done()) {
    if (!fabric_.step(deadline)) return done();
  }
  return true;
}

void World::run_for(TimeNs duration) {
  run_until([] { return false; }, clock_.now() + duration);
}

}  // namespace r2ccl::sim
