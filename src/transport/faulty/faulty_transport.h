// A transport with faults: decorates any other and applies a FaultPlan to its connections.
//
// It does nothing that a byte stream cannot do: a black hole never loses bytes and goes on. It
// holds bytes that enter a black hole (64 KB a direction, then the writer blocks). They flow again
// when the plan heals it, as TCP's retransmission would make them. A connect through a black hole
// stays pending for ever. Under `down` connections are dead for good; their peers hear nothing
// until the plan heals the NIC. The handshake below a connection is real. So if the peer's plan
// does not contain the fault, its connect to a listener behind a black hole may still succeed; set
// the plans of both ends.
#pragma once

#include <memory>

#include "transport/faulty/faulty_connection.h"
#include "transport/transport.h"

namespace r2ccl {

class FaultyTransport final : public Transport, private FaultyPollable {
 public:
  // `inner`, `plan` and `clock` must outlive the transport.
  FaultyTransport(Transport& inner, FaultPlan& plan, const Clock& clock);
  // As above, and owns `inner`.
  FaultyTransport(std::unique_ptr<Transport> inner, FaultPlan& plan, const Clock& clock);
  ~FaultyTransport() override;

  Poller& poller() override { return context_.poller; }
  Result<std::vector<Nic>> nics() override;
  int nic_events_poll_id() const override { return nic_events_id_; }
  bool drain_nic_events() override;
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override;
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override;

 private:
  Readiness readiness(TimeNs now, bool want_write) override;
  bool pass_on_inner_events() const override { return true; }
  void forget_departed();

  std::unique_ptr<Transport> owned_;  // null when another object owns the inner one
  Transport& inner_;
  FaultyContext context_;
  int nic_events_id_;
  uint64_t nic_version_;  // the plan's version at the last drain of NIC events
};

}  // namespace r2ccl
