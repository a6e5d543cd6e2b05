#include "transport/tcp/tcp_listener.h"

#include <sys/socket.h>

#include <cerrno>

#include "transport/tcp/socket_address.h"
#include "transport/tcp/socket_options.h"
#include "transport/tcp/tcp_connection.h"

namespace r2ccl {
namespace {

// Returns whether this process or machine has run out of resources; the pending connection is
// sound.
bool out_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Returns whether the error belongs to the listening socket itself. Every other error belongs to a
// connection that died in the backlog (accept(2) lists the network errors which Linux passes on),
// and the listener skips that one.
bool is_listener_broken(int error) {
  return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EOPNOTSUPP;
}

}  // namespace

TcpListener::TcpListener(GuardedFd socket, const Endpoint& local, uint32_t unsent_low_water)
    : socket_(std::move(socket)), local_(local), unsent_low_water_(unsent_low_water) {}

std::unique_ptr<Connection> TcpListener::accept() {
  accept_error_ = 0;
  for (;;) {
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    GuardedFd socket = GuardedFd::from([&] {
      return accept4(socket_.get(), peer.get(), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    });
    if (socket.valid()) {
      const int error = set_stream_options(socket.get(), unsent_low_water_);
      if (error != 0) continue;  // it was reset meanwhile
      return std::make_unique<TcpConnection>(std::move(socket), to_endpoint(peer));
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return nullptr;
    if (out_of_resources(error) || is_listener_broken(error)) {
      accept_error_ = error;
      return nullptr;
    }
  }
}

}  // namespace r2ccl
