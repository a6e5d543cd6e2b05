// Listener on an abstract Unix-domain socket. Its name lives in the network namespace and ends with
// the socket. Only processes of the same user are admitted.
#pragma once

#include <memory>

#include "transport/shm/shm_connection.h"

namespace r2ccl {

class ShmListener final : public Listener {
 public:
  // `socket` listens at `local`.
  ShmListener(std::shared_ptr<ShmConnections> all, GuardedFd socket, const Endpoint& local);

  std::unique_ptr<Connection> accept() override;
  int accept_error() const override { return accept_error_; }
  Endpoint local() const override { return local_; }
  int poll_id() const override { return socket_.get(); }

 private:
  std::shared_ptr<ShmConnections> all_;
  GuardedFd socket_;
  Endpoint local_;
  int accept_error_ = 0;
};

}  // namespace r2ccl
