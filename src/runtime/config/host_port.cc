#include "runtime/config/host_port.h"

#include <charconv>

namespace r2ccl {
namespace {

Status malformed(const std::string& text) {
  return {Code::invalid_argument,
          "\"" + text + "\" is not host:port (an IPv6 address goes in brackets: [fd00::1]:4711)"};
}

bool parse_port(const std::string& text, uint16_t& port) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && rest == end && port != 0;
}

}  // namespace

Result<HostPort> parse_host_port(const std::string& text) {
  HostPort out;
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || !parse_port(text.substr(colon + 1), out.port)) {
    return malformed(text);
  }
  out.host = text.substr(0, colon);
  const bool bracketed = out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']';
  if (bracketed) out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty() || out.host.find_first_of(" \t[]/") != std::string::npos ||
      (!bracketed && out.host.find(':') != std::string::npos)) {
    return malformed(text);
  }
  return out;
}

std::string to_string(const HostPort& where) {
  const bool ipv6 = where.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + where.host + "]" : where.host) + ":" + std::to_string(where.port);
}

}  // namespace r2ccl
