// A connection whose NIC may be faulty.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/faulty/fault_plan.h"
#include "transport/faulty/faulty_poller.h"
#include "transport/faulty/held_bytes.h"

namespace r2ccl {

class FaultyConnection;

// State that the connections and listeners of one FaultyTransport share.
struct FaultyContext {
  const Clock& clock;
  FaultPlan& plan;
  FaultyPoller poller;
  // Connections that their owner has destroyed, and that still have bytes to send, as a kernel
  // sends them after close(). They end once their bytes are sent. They stay while their NIC is
  // silent, because no peer may hear of the end.
  std::vector<std::unique_ptr<FaultyConnection>> departed;
};

class FaultyConnection final : public Connection, public FaultyPollable {
 public:
  FaultyConnection(FaultyContext& context, FaultTarget target, std::unique_ptr<Connection> inner);
  // Makes a connection without an inner one: failed with `error`, or, with 0, a lost SYN. The
  // latter stays pending for ever, because the owner's next attempt finds a healed NIC.
  FaultyConnection(FaultyContext& context, FaultTarget target, const Endpoint& remote, int error);
  ~FaultyConnection() override;

  ConnectState connect_state() override;
  int connect_error() const override;
  IoResult read(std::span<const iovec> slices) override;
  IoResult write(std::span<const iovec> slices) override;
  ConnectionInfo info() const override;
  Endpoint remote() const override { return remote_; }
  Endpoint local() const override { return inner_ == nullptr ? Endpoint{} : inner_->local(); }
  int poll_id() const override { return poll_id_; }

  Readiness readiness(TimeNs now, bool want_write) override;
  bool pass_on_inner_events() const override;
  TimeNs move_held(TimeNs now) override;

  // Returns whether a departed connection has nothing left to send.
  bool is_over() const { return !alive(); }
  // Makes a departed connection send at once the bytes that the socket takes, because the transport
  // ends.
  void flush();

 private:
  struct Departure {};
  // Takes over the connection below, and the bytes on their way to it.
  FaultyConnection(Departure, FaultyConnection& from);

  bool alive() const { return inner_ != nullptr && error_ == 0; }
  bool holds_transmit() const;
  int operation_error();
  bool holds_receive() const;
  void refresh();
  IoResult fail(int error);
  void reset(Direction direction);
  struct Changed {
    size_t slice = 0;
    uint64_t needed = 0;  // so many bytes of the write include the changed one
    std::vector<uint8_t> bytes;
  };
  bool change_bytes(std::span<const iovec> slices, Changed& changed);
  void add_bytes(uint32_t count);
  IoResult pass_on(std::span<const iovec> slices);
  size_t limit(Direction direction) const;
  void count(Direction direction, size_t bytes);
  void pump_transmit(TimeNs now);
  void pump_receive(TimeNs now);
  IoResult read_held(std::span<const iovec> slices, TimeNs now);
  IoResult write_held(std::span<const iovec> slices, TimeNs now);
  size_t allowance(Direction direction, TimeNs now);

  FaultyContext& context_;
  FaultTarget target_;
  std::unique_ptr<Connection> inner_;
  Endpoint remote_;
  int poll_id_;
  NicFault fault_;
  uint64_t fault_version_ = 0;
  ConnectState state_ = ConnectState::pending;
  int error_ = 0;  // the error of the plan's fault; inner errors stay inside
  HeldBytes outgoing_;
  HeldBytes incoming_;
  IoResult inner_end_;          // the end of the inner stream behind the incoming bytes
  uint64_t moved_[2] = {0, 0};  // by Direction
  TimeNs next_write_look_ = 0;
  bool departed_ = false;
  bool muted_ = false;  // nothing more leaves after bytes that were added
};

}  // namespace r2ccl
