// Dispatches readiness events to the handlers of connections. A registration is a value that ends
// with its owner. An event that was already fetched for an ended registration is dropped.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace r2ccl {

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_ready(const PollEvent& event) = 0;
};

class Reactor {
 public:
  explicit Reactor(Poller& poller) : poller_(poller) {}

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
  // Waits for at most `timeout_ns`, dispatches the ready events and returns their number.
  size_t poll(TimeNs timeout_ns);

 private:
  struct Slot {
    EventHandler* handler = nullptr;
    uint32_t generation = 0;
  };
  uint64_t token(size_t slot) const {
    return static_cast<uint64_t>(slots_[slot].generation) << 32 | slot;
  }

  Poller& poller_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
};

}  // namespace r2ccl
