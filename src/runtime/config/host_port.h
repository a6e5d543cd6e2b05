// "host:port" as users write it.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace r2ccl {

struct HostPort {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without brackets
  uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Parses "node0:4711", "10.0.0.1:4711" or "[fd00::1]:4711".
Result<HostPort> parse_host_port(const std::string& text);
std::string to_string(const HostPort& where);

}  // namespace r2ccl
