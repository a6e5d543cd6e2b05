#include "runtime/host_port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

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

bool to_endpoint(const addrinfo& info, uint16_t port, Endpoint& out) {
  out = Endpoint();
  out.port = port;
  if (info.ai_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    out.address.family = AddressFamily::ipv4;
    std::memcpy(out.address.bytes.data(), &in->sin_addr, 4);
    return true;
  }
  if (info.ai_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
    out.address.family = AddressFamily::ipv6;
    std::memcpy(out.address.bytes.data(), &in->sin6_addr, 16);
    out.address.scope = in->sin6_scope_id;
    return true;
  }
  return false;
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

Result<std::vector<Endpoint>> resolve(const HostPort& where, AddressFamily family) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  switch (family) {
    case AddressFamily::none:
      hints.ai_family = AF_UNSPEC;
      break;
    case AddressFamily::ipv4:
      hints.ai_family = AF_INET;
      break;
    case AddressFamily::ipv6:
      hints.ai_family = AF_INET6;
      break;
  }
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(where.host.c_str(), nullptr, &hints, &list); error != 0) {
    return Status(Code::system,
                  "cannot resolve the host name \"" + where.host + "\": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Endpoint> out;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    Endpoint endpoint;
    if (to_endpoint(*info, where.port, endpoint) &&
        std::find(out.begin(), out.end(), endpoint) == out.end()) {
      out.push_back(endpoint);
    }
  }
  if (out.empty()) {
    return Status(Code::system, "the host name \"" + where.host + "\" has no usable address");
  }
  return out;
}

}  // namespace r2ccl
