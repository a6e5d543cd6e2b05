#include "transport/tcp/socket_address.h"

#include <netinet/in.h>

#include <cstring>

#include "base/check.h"

namespace r2ccl {

namespace {

// A socket that serves both families has addresses of IPv4 in this form (RFC 4291, 2.5.5.2).
Address unmapped(const Address& mapped) {
  Address out;
  out.family = AddressFamily::ipv4;
  std::memcpy(out.bytes.data(), mapped.bytes.data() + 12, 4);
  return out;
}

}  // namespace

int socket_family(AddressFamily family) {
  switch (family) {
    case AddressFamily::none:
    case AddressFamily::local:
      return AF_UNSPEC;
    case AddressFamily::ipv4:
      return AF_INET;
    case AddressFamily::ipv6:
      return AF_INET6;
  }
  return AF_UNSPEC;
}

SocketAddress to_socket_address(const Endpoint& endpoint) {
  R2CCL_CHECK(endpoint.address.family != AddressFamily::none);
  SocketAddress out;
  if (endpoint.address.family == AddressFamily::ipv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    std::memcpy(&in.sin_addr, endpoint.address.bytes.data(), sizeof in.sin_addr);
    std::memcpy(&out.storage, &in, sizeof in);
    out.length = sizeof in;
    return out;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(endpoint.port);
  in6.sin6_scope_id = endpoint.address.scope;
  std::memcpy(&in6.sin6_addr, endpoint.address.bytes.data(), sizeof in6.sin6_addr);
  std::memcpy(&out.storage, &in6, sizeof in6);
  out.length = sizeof in6;
  return out;
}

Endpoint to_endpoint(const SocketAddress& address) {
  Endpoint out;
  if (address.storage.ss_family == AF_INET && address.length >= sizeof(sockaddr_in)) {
    sockaddr_in in;
    std::memcpy(&in, &address.storage, sizeof in);
    out.address.family = AddressFamily::ipv4;
    std::memcpy(out.address.bytes.data(), &in.sin_addr, sizeof in.sin_addr);
    out.port = ntohs(in.sin_port);
  } else if (address.storage.ss_family == AF_INET6 && address.length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in6;
    std::memcpy(&in6, &address.storage, sizeof in6);
    out.address.family = AddressFamily::ipv6;
    std::memcpy(out.address.bytes.data(), &in6.sin6_addr, sizeof in6.sin6_addr);
    out.address.scope = in6.sin6_scope_id;
    out.port = ntohs(in6.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) != 0) out.address = unmapped(out.address);
  }
  return out;
}

}  // namespace r2ccl
