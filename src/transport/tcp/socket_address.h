// Converts between Endpoint and sockaddr.
#pragma once

#include <sys/socket.h>

#include "transport/endpoint.h"

namespace r2ccl {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Returns AF_INET, AF_INET6 or AF_UNSPEC.
int socket_family(AddressFamily family);
// Requires that `endpoint` has an address.
SocketAddress to_socket_address(const Endpoint& endpoint);
// Returns family none when it is neither IPv4 nor IPv6.
Endpoint to_endpoint(const SocketAddress& address);

}  // namespace r2ccl
