// Transport that adds shared memory between processes of one host to another transport.
//
// An endpoint of the family `local` names a listener on an abstract Unix-domain socket (bytes and
// port are its name). All other endpoints, and the NICs, are those of the transport below. Both
// kinds of connections share one poller.
#pragma once

#include <memory>
#include <string>

#include "transport/shm/shm_poller.h"
#include "transport/transport.h"

namespace r2ccl {

class ShmTransport final : public Transport {
 public:
  // `direct`: processes that permit it read each other's memory, and copy large payload once.
  ShmTransport(std::unique_ptr<Transport> below, const Clock& clock, bool direct = true);

  Poller& poller() override { return poller_; }
  Result<std::vector<Nic>> nics() override { return below_->nics(); }
  int nic_events_poll_id() const override { return below_->nic_events_poll_id(); }
  bool drain_nic_events() override { return below_->drain_nic_events(); }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override;
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override;

 private:
  std::unique_ptr<Transport> below_;
  std::shared_ptr<ShmConnections> all_ = std::make_shared<ShmConnections>();
  ShmPoller poller_;
};

}  // namespace r2ccl
