// The address at which a listener can be reached: IPv4, IPv6 or a name within the host, and a port.
// A value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace r2ccl {

// `local`: a listener that only processes of this host reach, by 16 random bytes as its name.
enum class AddressFamily : uint8_t { none = 0, local = 1, ipv4 = 4, ipv6 = 6 };

struct Address {
  AddressFamily family = AddressFamily::none;
  std::array<uint8_t, 16> bytes{};  // network order; IPv4 uses the first four
  uint8_t prefix_bits = 0;          // length of the subnet prefix, 0 when not known
  uint32_t scope = 0;               // interface index of an IPv6 link-local address, local use only

  friend bool operator==(const Address&, const Address&) = default;
};

struct Endpoint {
  Address address;
  uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Returns "10.1.2.3", "fe80::1%eth0" or "shm".
std::string to_string(const Address& address);
// Returns "10.1.2.3:4711" or "[fe80::1%eth0]:4711".
std::string to_string(const Endpoint& endpoint);
// Parses the output of to_string(Address) for IPv4 and IPv6 and nothing else. A scope is an
// interface name or index.
std::optional<Address> parse_address(const std::string& text);
// Returns true for 169.254.0.0/16 and fe80::/10: usable only on the NIC it belongs to.
bool is_link_local(const Address& address);
// Returns true for 127.0.0.0/8 and ::1.
bool is_loopback(const Address& address);
// Returns whether the address is one of these, whatever their subnets and scopes.
bool has_address(std::span<const Address> all, const Address& address);
// Returns true when both lie in one subnet by the longer of the two prefixes.
bool same_subnet(const Address& a, const Address& b);

}  // namespace r2ccl
