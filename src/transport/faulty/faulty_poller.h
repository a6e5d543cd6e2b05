// Poller of a FaultyTransport: the inner poller's readiness, corrected by the faults, plus
// readiness that only the faults know of (a held byte is due, a connection is dead).
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "transport/transport.h"

namespace r2ccl {

// A connection, listener or event source of the decorator, as its poller sees it.
class FaultyPollable {
 public:
  // The poller's task until the next look.
  struct Readiness {
    int inner_id = -1;  // watch this id of the inner poller; -1: none
    bool inner_want_write = false;
    bool readable = false;  // report now
    bool writable = false;  // report now, if the owner wants it
    TimeNs look_again_at = kNever;
  };
  virtual ~FaultyPollable() = default;
  virtual Readiness readiness(TimeNs now, bool want_write) = 0;
  // Called when the inner poller has reported. Returns true when the poller may pass it on as it
  // is.
  virtual bool pass_on_inner_events() const = 0;
  // Replaces readiness() while the owner does not watch: moves the due bytes, and returns when to
  // do so again.
  virtual TimeNs move_held(TimeNs) { return kNever; }
};

class FaultyPoller final : public Poller {
 public:
  FaultyPoller(Poller& inner, const Clock& clock, class FaultPlan& plan);
  ~FaultyPoller() override;

  // Ids of other objects (a Unix socket, say) go to the inner poller as they are.
  Status add(int poll_id, uint64_t token, bool want_write) override;
  void modify(int poll_id, uint64_t token, bool want_write) override;
  void remove(int poll_id) override;
  // Also returns 0 early when the plan changes.
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override;
  void wake() override;

  // Gives `pollable` an id of its own, outside the range of descriptors: a dead connection keeps
  // its id while its descriptor's number goes to another.
  int enroll(FaultyPollable* pollable);
  void withdraw(int poll_id);
  // Requires that the inner connection that `poll_id` watches still exists.
  void forget_inner(int poll_id);

 private:
  struct Entry {
    uint64_t token = 0;
    bool want_write = false;
    FaultyPollable* pollable = nullptr;  // null: an id of the inner poller
    int inner_id = -1;                   // the id that is registered with the inner poller now
    bool inner_want_write = false;
  };

  void watch(int poll_id, Entry& entry, const FaultyPollable::Readiness& readiness);
  size_t look_at_all(std::span<PollEvent> events, TimeNs now, TimeNs& look_again_at);
  size_t wait_inner(std::span<PollEvent> events, TimeNs timeout_ns, bool& quiet);

  Poller& inner_;
  const Clock& clock_;
  FaultPlan& plan_;
  int next_id_;
  // Set by wake() and taken by wait(), both acquire-release: a wake-up that ends the inner wait
  // just when a look is due must not be taken for the timer.
  std::atomic<bool> woken_{false};
  std::map<int, FaultyPollable*> enrolled_;
  std::map<int, Entry> entries_;  // the owner's additions
};

}  // namespace r2ccl
