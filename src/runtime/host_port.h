// "host:port" as users write it, and the addresses that a host's name stands for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/endpoint.h"

namespace r2ccl {

struct HostPort {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without brackets
  uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "node0:4711", "10.0.0.1:4711" or "[fd00::1]:4711".
Result<HostPort> parse_host_port(const std::string& text);
std::string to_string(const HostPort& where);

// Every address of the host, in the resolver's order; family none: both. Blocks while it asks.
Result<std::vector<Endpoint>> resolve(const HostPort& where,
                                      AddressFamily family = AddressFamily::none);

}  // namespace r2ccl
