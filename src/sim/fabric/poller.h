// Readiness on virtual time. wait() does not block: the world runs an actor only when its poller
// has an event.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transport/transport.h"

namespace r2ccl::sim {

// Anything with a poll id. Level-triggered, so the poller asks again at every wait.
class PollSource {
 public:
  virtual ~PollSource() = default;
  virtual bool readable() const = 0;
  virtual bool writable() const = 0;
};

class SimPoller final : public Poller {
 public:
  Status add(int poll_id, uint64_t token, bool want_write) override;
  void modify(int poll_id, uint64_t token, bool want_write) override;
  void remove(int poll_id) override;
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override;
  void wake() override;

  // Gives a source its id. The source must be detached before it is destroyed.
  int attach(const PollSource& source);
  void detach(int poll_id);
  // The source's readiness may have changed.
  void touch(int poll_id);
  bool watches(int poll_id) const;
  // Returns true when wait() would return events, or wake() was called since the last wait.
  bool has_events();

  // Called when has_events() may have become true.
  void set_on_ready(std::function<void()> on_ready) { on_ready_ = std::move(on_ready); }
  // For tests without a world: lets wait() pass virtual time. The driver runs one event, or
  // advances to the deadline and returns false. `now` is the clock that it moves.
  void set_driver(std::function<bool(TimeNs deadline)> driver, const Clock& clock) {
    driver_ = std::move(driver);
    clock_ = &clock;
  }

 private:
  struct Slot {
    const PollSource* source = nullptr;  // null: the source has been detached
    uint64_t token = 0;
    bool watched = false;
    bool want_write = false;
  };
  Slot* find(int poll_id);  // null: no source has this id
  PollEvent event_of(int poll_id) const;
  size_t collect(std::span<PollEvent> events);

  std::vector<Slot> slots_;  // by id, which no second source gets
  // All ids that may be ready, in ascending order. The next wait removes the others.
  std::vector<int> candidates_;
  int resume_after_ = 0;  // fairness when `events` is short: continue behind the last id reported
  bool woken_ = false;
  std::function<void()> on_ready_;
  std::function<bool(TimeNs)> driver_;
  const Clock* clock_ = nullptr;
};

}  // namespace r2ccl::sim
