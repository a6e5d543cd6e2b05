#include "transport/shm/shm_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace r2ccl {
namespace {

// A rank beyond it is refused, and tries again.
constexpr int kBacklog = 1024;

struct UnixAddress {
  sockaddr_un storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// An abstract name begins with a zero byte and is not in the file system.
UnixAddress address_of(const Endpoint& endpoint) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name(1, '\0');
  name += "r2ccl-";
  for (const uint8_t byte : endpoint.address.bytes) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  name += '-' + std::to_string(endpoint.port);
  UnixAddress address;
  address.storage.sun_family = AF_UNIX;
  std::ranges::copy(name, address.storage.sun_path);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

int bind_to(int socket, const Endpoint& local) {
  const UnixAddress address = address_of(local);
  return bind(socket, address.get(), address.length) == 0 ? 0 : errno;
}

std::optional<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

}  // namespace

GuardedFd open_shm_socket() {
  return GuardedFd::from(
      [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

int listen_at(int socket, Endpoint& local) {
  int error = 0;
  if (local.port != 0) {
    error = bind_to(socket, local);
  } else {
    do {
      ++local.port;
      error = bind_to(socket, local);
    } while (error == EADDRINUSE && local.port != UINT16_MAX);
  }
  if (error != 0) return error;
  return listen(socket, kBacklog) == 0 ? 0 : errno;
}

int connect_to(int socket, const Endpoint& remote) {
  const UnixAddress address = address_of(remote);
  if (connect(socket, address.get(), address.length) != 0) return errno;
  return peer_is_same_user(socket) ? 0 : EACCES;
}

bool peer_is_same_user(int socket) {
  const std::optional<ucred> peer = peer_of(socket);
  return peer && peer->uid == geteuid();
}

pid_t peer_process(int socket) {
  const std::optional<ucred> peer = peer_of(socket);
  return peer ? peer->pid : 0;
}

}  // namespace r2ccl
