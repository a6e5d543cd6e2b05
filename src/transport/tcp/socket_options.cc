#include "transport/tcp/socket_options.h"

#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "transport/tcp/socket_address.h"
#include "transport/transport.h"

namespace r2ccl {
namespace {

// Firewalls forget flows that are idle for minutes, some for less.
constexpr int kKeepAliveS = kKeepAlive / kSecond;
// As many as Linux takes, because these only keep the flow alive. The failure detector decides
// whether a path has failed, on more evidence.
constexpr int kKeepAlivesUnanswered = 127;

int set_option(int socket, int level, int name, int value) {
  return setsockopt(socket, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

}  // namespace

int set_stream_options(int socket, uint32_t unsent_low_water) {
  const int always[][3] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                           {SOL_SOCKET, SO_KEEPALIVE, 1},
                           {IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveS},
                           {IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveS},
                           {IPPROTO_TCP, TCP_KEEPCNT, kKeepAlivesUnanswered}};
  for (const auto& [level, name, value] : always) {
    if (const int error = set_option(socket, level, name, value); error != 0) return error;
  }
  if (unsent_low_water == 0) return 0;
  return set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(unsent_low_water));
}

int set_connect_options(int socket) {
  return set_option(socket, IPPROTO_TCP, TCP_SYNCNT, 1);
}

void keep_icmp_errors(int socket, bool keep) {
  // A socket takes the option of its own family alone.
  set_option(socket, IPPROTO_IP, IP_RECVERR, keep ? 1 : 0);
  set_option(socket, IPPROTO_IPV6, IPV6_RECVERR, keep ? 1 : 0);
}

bool has_icmp_error(int socket) {
  std::array<char, 512> control{};
  char byte = 0;
  iovec slice{&byte, sizeof byte};
  msghdr message{};
  message.msg_iov = &slice;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return false;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const bool ipv4 = part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR;
    const bool ipv6 = part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR;
    if (!ipv4 && !ipv6) continue;
    sock_extended_err error{};
    std::memcpy(&error, CMSG_DATA(part), sizeof error);
    return error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
  }
  return false;
}

int set_listen_options(int socket, AddressFamily family, bool both_families) {
  if (const int error = set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1); error != 0) return error;
  if (family != AddressFamily::ipv6) return 0;
  return set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
}

int bind_to_device(int socket, const std::string& device) {
  const auto length = static_cast<socklen_t>(device.size() + 1);
  return setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, device.c_str(), length) == 0 ? 0 : errno;
}

int prefer_device(int socket, AddressFamily family, const std::string& device) {
  const uint32_t index = if_nametoindex(device.c_str());
  if (index == 0) return ENODEV;
  const int value = static_cast<int>(htonl(index));
  return family == AddressFamily::ipv6 ? set_option(socket, IPPROTO_IPV6, IPV6_UNICAST_IF, value)
                                       : set_option(socket, IPPROTO_IP, IP_UNICAST_IF, value);
}

int check_carrier(int socket, const std::string& device) {
  ifreq request{};
  device.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (ioctl(socket, SIOCGIFFLAGS, &request) != 0) return 0;
  return (request.ifr_flags & IFF_RUNNING) != 0 ? 0 : ENETDOWN;
}

int bind_source(int socket, const Address& source) {
  // This only saves ports; a system without it works too.
  set_option(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  const SocketAddress address = to_socket_address({.address = source, .port = 0});
  return bind(socket, address.get(), address.length) == 0 ? 0 : errno;
}

}  // namespace r2ccl
