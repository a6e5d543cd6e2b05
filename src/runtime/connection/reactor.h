// Dispatches readiness events to the handlers of connections. A registration is a value that ends
// with its holder. An event that was already fetched for an ended registration is dropped.
//
// The ranks of one process share a poller: each has a reactor of its own, for its own handlers,
// over the reactor that polls. So an exception of a handler reaches the rank that it belongs to.
#pragma once

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "transport/transport.h"

namespace r2ccl {

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_ready(const PollEvent& event) = 0;
};

// The rank that a handler belongs to.
class HandlerOwner {
 public:
  virtual ~HandlerOwner() = default;
  // Labels the log lines of its handlers.
  virtual Rank self() const = 0;
  // A handler has thrown, perhaps for want of memory. The handlers of the other events run all the
  // same.
  virtual void on_exception(const std::exception& error) noexcept = 0;
};

class Reactor {
 public:
  explicit Reactor(Poller& poller) : poller_(&poller), shared_(*this), events_(kEventsMax) {}
  // A reactor for the handlers of `owner`. `shared` polls for it. Both must outlive this.
  Reactor(Reactor& shared, HandlerOwner& owner) : shared_(shared.shared_), owner_(&owner) {}
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept { *this = std::move(other); }
    Registration& operator=(Registration&& other) noexcept {
      if (this != &other) {
        reset();
        reactor_ = std::exchange(other.reactor_, nullptr);
        slot_ = other.slot_;
        poll_id_ = other.poll_id_;
        want_write_ = other.want_write_;
      }
      return *this;
    }
    ~Registration() { reset(); }
    // Cheap when the value does not change.
    void want_write(bool on);
    void reset();
    explicit operator bool() const { return reactor_ != nullptr; }

   private:
    friend class Reactor;
    Reactor* reactor_ = nullptr;
    size_t slot_ = 0;
    int poll_id_ = -1;
    bool want_write_ = false;
  };

  // Requires that `handler` outlives the registration.
  Result<Registration> add(int poll_id, EventHandler& handler, bool want_write);
  // Waits for at most `timeout_ns`, dispatches the ready events and returns their number. Only for
  // a reactor over a poller.
  size_t poll(TimeNs timeout_ns);

 private:
  struct Slot {
    EventHandler* handler = nullptr;
    HandlerOwner* owner = nullptr;  // null: its exceptions end poll()
    uint32_t generation = 0;
  };
  Result<Registration> add_for(HandlerOwner* owner, int poll_id, EventHandler& handler,
                               bool want_write);
  static void dispatch(const Slot& slot, const PollEvent& event);
  uint64_t token(size_t slot) const {
    return static_cast<uint64_t>(slots_[slot].generation) << 32 | slot;
  }

  static constexpr size_t kEventsMax = 128;  // that one poll() dispatches

  Poller* poller_ = nullptr;  // null: shared_ has it, and the slots
  Reactor& shared_;
  HandlerOwner* owner_ = nullptr;
  std::vector<PollEvent> events_;  // of the present poll(); empty without a poller
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
};

}  // namespace r2ccl
