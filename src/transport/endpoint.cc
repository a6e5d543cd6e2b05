#include "transport/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>

namespace r2ccl {

std::string to_string(const Address& address) {
  if (address.family == AddressFamily::none) return "none";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(address.family == AddressFamily::ipv4 ? AF_INET : AF_INET6, address.bytes.data(), text,
            sizeof text);
  std::string out = text;
  char name[IF_NAMESIZE];
  if (address.scope != 0 && if_indextoname(address.scope, name) != nullptr) {
    out += "%" + std::string(name);
  }
  return out;
}

std::string to_string(const Endpoint& endpoint) {
  const std::string address = to_string(endpoint.address);
  const std::string port = ":" + std::to_string(endpoint.port);
  return endpoint.address.family == AddressFamily::ipv6 ? "[" + address + "]" + port
                                                         : address + port;
}

bool same_subnet(const Address& a, const Address& b) {
  if (a.family != b.family || a.family == AddressFamily::none) return false;
  const int bits = std::max(a.prefix_bits, b.prefix_bits);
  for (int bit = 0; bit < bits; ++bit) {
    const size_t byte = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((a.bytes[byte] ^ b.bytes[byte]) & mask) != 0) return false;
  }
  return bits > 0;
}

}  // namespace r2ccl
