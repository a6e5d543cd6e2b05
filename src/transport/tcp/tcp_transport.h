// Transport over the kernel's TCP: non-blocking sockets, epoll and rtnetlink.
#pragma once

#include <memory>
#include <string>

#include "transport/nic_choice.h"
#include "transport/tcp/nic_watch.h"
#include "transport/tcp/tcp_poller.h"
#include "transport/transport.h"

namespace r2ccl {

struct TcpOptions {
  NicFilter nic_filter;
  // For accepted connections, and for connections whose ConnectOptions leave it 0.
  uint32_t unsent_low_water = 0;
};

class TcpTransport final : public Transport {
 public:
  // Returns an error when there are no descriptors. nics() is the first to apply the filter.
  static Result<std::unique_ptr<TcpTransport>> open(TcpOptions options);

  Poller& poller() override { return *poller_; }
  // Returns the NICs. A filter that matches nothing is an error on the first call. Later calls only
  // set `reason`: an interface that disappears from a running job is a fault and no mistake of the
  // user's.
  Result<std::vector<Nic>> nics() override;
  int nic_events_poll_id() const override { return nic_watch_->fd(); }
  bool drain_nic_events() override { return nic_watch_->drain(); }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override;
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override;

 private:
  TcpTransport(TcpOptions options, std::unique_ptr<TcpPoller> poller,
               std::unique_ptr<NicWatch> nic_watch);

  // Returns the address that traffic by `device` should come from.
  Address source_on(const std::string& device, AddressFamily family);
  // These return 0 or an errno value.
  int bind_to_nic(int socket, AddressFamily family, const std::string& device, Address source);
  int prepare_connect(int socket, Endpoint& remote, const ConnectOptions& options);

  TcpOptions options_;
  std::unique_ptr<TcpPoller> poller_;
  std::unique_ptr<NicWatch> nic_watch_;
  bool filter_has_matched_ = false;
  bool told_unbound_ = false;  // logged once that sockets cannot be bound to devices here
};

}  // namespace r2ccl
