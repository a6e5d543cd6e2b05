// The part of the engine that all communicators of a process share: the transport with its poller,
// the account of each NIC, and the buffers of the driving thread. Each communicator's RankRuntime
// is a member of it.
//
// A pass waits for events once, dispatches them, and then lets each member do the work that is due.
// Members have no order among them: each pass begins with another one, and a member's share of a
// pass is bounded, so that none starves. An exception in one member never reaches the others.
//
// Single-threaded, as all that it drives: it belongs to the driving thread, or to an actor of the
// simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/path/nic_queue.h"
#include "runtime/connection/reactor.h"
#include "runtime/connection/spin_wait.h"
#include "transport/transport.h"

namespace r2ccl {

class ProcessEngine final : private EventHandler {
 public:
  class Member : public HandlerOwner {
   public:
    // Does all that is due, after the events of this pass.
    virtual void progress() = 0;
    // Returns when the next pass is due if nothing happens: absolute.
    virtual TimeNs next_timeout() = 0;
    // Returns whether an operation is unfinished, or bytes wait to be sent.
    virtual bool busy() const = 0;
    // The state or the address of some NIC may have changed.
    virtual void on_nics_changed() = 0;
    // Returns whether a caller waits for long in a communicator of this member, other than `comm`.
    virtual bool caller_waits_outside(uint64_t comm) const = 0;
    // A caller has begun to wait in some communicator.
    virtual void on_caller_waits() = 0;
  };

  // `on_polled`: called once in each pass, after its events and before the members; may be empty.
  // `spins`: waits for operations may spin (spin_wait.h). Transport and clock must outlive this.
  ProcessEngine(Transport& transport, const Clock& clock, std::function<void()> on_polled = {},
                bool spins = false);

  // A member joins and leaves between two passes, or from inside on_polled.
  void add(Member& member);
  void remove(Member& member);
  size_t member_count() const { return members_.size(); }
  // Tells the members of changes to NICs from now on, while there are members.
  Status watch_nics();

  // Tells all members that a caller has begun to wait.
  void tell_caller_waits();
  // Returns whether a caller waits in any other communicator.
  bool caller_waits_outside(uint64_t comm) const;

  // Runs one pass; waits up to `timeout_ns` for events.
  void progress(TimeNs timeout_ns);
  // Returns when the next pass is due if nothing happens: absolute.
  TimeNs next_timeout() const;
  bool busy() const;
  // An exception outside any member fails every member.
  void on_exception(const std::exception& error) noexcept;

  Transport& transport() { return transport_; }
  const Clock& clock() const { return clock_; }
  Reactor& reactor() { return reactor_; }
  // Returns when this pass's events were read: later bytes have not been read.
  TimeNs polled_at() const { return polled_at_; }
  // Returns the accounts of the NICs of this host. They are the same for all members, so that all
  // of them together do not fill the queue of a NIC.
  NicQueues& nic_queues() { return nic_queues_; }
  // The memory for bytes that are read and not kept, and for control streams, as they want it.
  std::span<std::byte> scratch() { return scratch_; }
  std::span<std::byte> read_buffer() { return read_buffer_; }
  std::vector<std::byte>& spare_frame() { return spare_frame_; }

 private:
  void on_ready(const PollEvent& event) override;  // NIC events

  Transport& transport_;
  const Clock& clock_;
  const std::function<void()> on_polled_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> read_buffer_;
  std::vector<std::byte> spare_frame_;
  NicQueues nic_queues_;
  Reactor reactor_;
  SpinWait spin_wait_;
  std::vector<Member*> members_;
  size_t first_ = 0;  // the member that begins the next pass
  TimeNs polled_at_ = 0;
  Reactor::Registration nic_events_;  // there while there is a member
};

}  // namespace r2ccl
