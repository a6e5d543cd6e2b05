#include "transport/shm/shm_listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/shm/shm_socket.h"

namespace r2ccl {

ShmListener::ShmListener(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                         const Endpoint& local)
    : all_(std::move(all)), socket_(std::move(socket)), local_(local) {}

std::unique_ptr<Connection> ShmListener::accept() {
  accept_error_ = 0;
  for (;;) {
    GuardedFd socket = GuardedFd::from(
        [&] { return accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
    if (socket.valid()) {
      if (!peer_is_same_user(socket.get())) continue;
      return std::make_unique<ShmConnection>(all_, std::move(socket), local_);
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) accept_error_ = errno;
    return nullptr;
  }
}

}  // namespace r2ccl
