// Listener over a non-blocking TCP socket.
#pragma once

#include "base/fork_guard.h"
#include "transport/transport.h"

namespace r2ccl {

class TcpListener final : public Listener {
 public:
  // `socket` listens at `local`; `unsent_low_water` is for the connections it accepts.
  TcpListener(GuardedFd socket, const Endpoint& local, uint32_t unsent_low_water);

  std::unique_ptr<Connection> accept() override;
  int accept_error() const override { return accept_error_; }
  Endpoint local() const override { return local_; }
  int poll_id() const override { return socket_.get(); }

 private:
  GuardedFd socket_;
  Endpoint local_;
  uint32_t unsent_low_water_;
  int accept_error_ = 0;
};

}  // namespace r2ccl
