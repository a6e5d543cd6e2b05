#include "transport/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace r2ccl {

std::string to_string(const Address& address) {
  if (address.family == AddressFamily::none) return "none";
  if (address.family == AddressFamily::local) return "shm";
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

std::optional<Address> parse_address(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
    address.family = AddressFamily::ipv4;
    return address;
  }
  const size_t percent = text.find('%');
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), address.bytes.data()) != 1) return {};
  address.family = AddressFamily::ipv6;
  if (percent == std::string::npos) return address;
  const std::string scope = text.substr(percent + 1);
  address.scope = if_nametoindex(scope.c_str());
  if (address.scope == 0) {
    const char* end = scope.data() + scope.size();
    const auto [rest, error] = std::from_chars(scope.data(), end, address.scope);
    if (error != std::errc() || rest != end || address.scope == 0) return {};
  }
  return address;
}

bool is_link_local(const Address& address) {
  const auto& bytes = address.bytes;
  switch (address.family) {
    case AddressFamily::none:
    case AddressFamily::local:
      return false;
    case AddressFamily::ipv4:
      return bytes[0] == 169 && bytes[1] == 254;
    case AddressFamily::ipv6:
      return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  return false;
}

bool is_loopback(const Address& address) {
  static constexpr std::array<uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0,
                                                      0, 0, 0, 0, 0, 0, 0, 1};
  switch (address.family) {
    case AddressFamily::none:
    case AddressFamily::local:
      return false;
    case AddressFamily::ipv4:
      return address.bytes[0] == 127;
    case AddressFamily::ipv6:
      return address.bytes == kLoopback6;
  }
  return false;
}

bool has_address(std::span<const Address> all, const Address& address) {
  return std::ranges::any_of(all, [&](const Address& each) {
    return each.family == address.family && each.bytes == address.bytes;
  });
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
