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

// What the connections and listeners of one FaultyTransport share.
struct FaultyContext {
  const Clock& clock;
  FaultPlan& plan;
  FaultyPoller poller;
  // Of connections that their owner has destroyed: what is still to be said, as a kernel says it
  // after close(). They end once their bytes are sent; not while their NIC is silent, because
  // nobody may hear of the end.
  std::vector<std::unique_ptr<FaultyConnection>> departed;
};

class FaultyConnection final : public Connection, public FaultyPollable {
 public:
  FaultyConnection(FaultyContext& context, FaultTarget target, std::unique_ptr<Connection> inner);
  // Without an inner connection: failed with `error`, or, with 0, a SYN that was lost. The latter
  // stays pending for ever, because the owner's next attempt is what finds a healed NIC.
  FaultyConnection(FaultyContext& context, FaultTarget target, const Endpoint& remote, int error);
  ~FaultyConnection() override;

  ConnectState connect_state() override;
  int connect_error() const override;
  IoResult read(std::span<const iovec> slices) override;
  IoResult write(std::span<const iovec> slices) override;
  ConnectionInfo info() const override;
  Endpoint remote() const override { return remote_; }
  int poll_id() const override { return poll_id_; }

  Readiness readiness(TimeNs now, bool want_write) override;
  bool pass_on_inner_events() const override;
  TimeNs move_held(TimeNs now) override;

  // Of a departed one: whether nothing is left to say.
  bool is_over() const { return !alive(); }
  // Of a departed one: sends at once what the socket takes, for the transport ends.
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
  bool change_bit(std::span<const iovec> slices, Changed& changed);
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
  int error_ = 0;  // what we have made it fail with; inner errors stay inside
  HeldBytes outgoing_;
  HeldBytes incoming_;
  IoResult inner_end_;          // what ended the inner stream behind the incoming bytes
  uint64_t moved_[2] = {0, 0};  // by Direction
  TimeNs next_write_look_ = 0;
  bool departed_ = false;
};

}  // namespace r2ccl
