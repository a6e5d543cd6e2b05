// Connection over a non-blocking TCP socket.
#pragma once

#include "base/fork_guard.h"
#include "transport/transport.h"

namespace r2ccl {

class TcpConnection final : public Connection {
 public:
  // Takes a socket that is connecting to `remote` (`error` 0), or whose attempt failed at once with
  // `error`. It keeps the socket even then: a poll of it reports the failure like a late one.
  TcpConnection(GuardedFd socket, const Endpoint& remote, int error);
  // Takes a socket that accept() returned.
  TcpConnection(GuardedFd socket, const Endpoint& remote);
  ~TcpConnection() override;

  ConnectState connect_state() override;
  int connect_error() const override;
  IoResult read(std::span<const iovec> slices) override;
  IoResult write(std::span<const iovec> slices) override;
  ConnectionInfo info() const override;
  Endpoint remote() const override { return remote_; }
  Endpoint local() const override;
  int poll_id() const override { return socket_.get(); }

 private:
  IoResult fail(int error);

  GuardedFd socket_;
  Endpoint remote_;
  ConnectState state_ = ConnectState::pending;
  uint64_t written_ = 0;  // bytes that the kernel has taken
  // The first error seen. The kernel returns an error once and then pretends that the stream had
  // ended.
  int error_ = 0;
};

}  // namespace r2ccl
