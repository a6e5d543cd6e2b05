// A transport with faults: decorates any other and does to its connections what a FaultPlan says.
//
// What a byte stream cannot do, this does not do: a hole never loses bytes and goes on. Bytes that
// enter a hole are held (64 KB a direction, then the writer blocks) and flow again when it is
// healed, as TCP's retransmission would make them. A connect through a hole stays pending for ever.
// Under `down` connections are dead for good; their peers hear nothing until the NIC is healed.
// The handshake below a connection is real, so a peer whose plan does not know of the fault may
// still see a connect to a holed listener succeed; tell the plans of both ends.
#pragma once

#include <memory>

#include "transport/faulty/faulty_connection.h"
#include "transport/transport.h"

namespace r2ccl {

class FaultyTransport final : public Transport, private FaultyPollable {
 public:
  // `inner`, `plan` and `clock` must outlive the transport.
  FaultyTransport(Transport& inner, FaultPlan& plan, const Clock& clock);
  // The same, and owns `inner`.
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

  std::unique_ptr<Transport> owned_;  // null when the inner one is somebody else's
  Transport& inner_;
  FaultyContext context_;
  int nic_events_id_;
  uint64_t nic_version_;  // of the plan, when NIC events were last drained
};

}  // namespace r2ccl
