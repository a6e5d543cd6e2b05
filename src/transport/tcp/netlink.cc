#include "transport/tcp/netlink.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/socket_address.h"

namespace r2ccl {
namespace {

constexpr int kAttempts = 8;              // dumps that a change may spoil before the read fails
constexpr size_t kDatagramBytes = 65536;  // the kernel fills at most 32 KB of it

GuardedFd open_netlink(int extra_flags) {
  return GuardedFd::from(
      [&] { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | extra_flags, NETLINK_ROUTE); });
}

// Receives one datagram into `buffer`; returns -1 with errno on failure. Any process may send to a
// netlink socket, so this checks the sender: a datagram that does not come from the kernel has
// length 0.
ssize_t receive(int fd, std::span<uint8_t> buffer) {
  sockaddr_nl sender{};
  iovec slice{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_name = &sender;
  header.msg_namelen = sizeof sender;
  header.msg_iov = &slice;
  header.msg_iovlen = 1;
  ssize_t count;
  do {
    count = recvmsg(fd, &header, 0);
  } while (count < 0 && errno == EINTR);
  return count > 0 && sender.nl_pid != 0 ? 0 : count;
}

struct LinkRequest {
  nlmsghdr header;
  ifinfomsg link;
  rtattr mask_header;
  uint32_t mask;
};

struct AddressRequest {
  nlmsghdr header;
  ifaddrmsg address;
};

Status send_request(int fd, const void* request, size_t bytes) {
  ssize_t count;
  do {
    count = send(fd, request, bytes, 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return system_error("netlink send", errno);
  return {};
}

Status request_links(int fd, uint32_t sequence) {
  LinkRequest request{};
  request.header = {.nlmsg_len = sizeof request,
                    .nlmsg_type = RTM_GETLINK,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = sequence,
                    .nlmsg_pid = 0};
  request.mask_header = {.rta_len = sizeof request.mask_header + sizeof request.mask,
                         .rta_type = IFLA_EXT_MASK};
  request.mask = RTEXT_FILTER_SKIP_STATS;
  return send_request(fd, &request, sizeof request);
}

Status request_addresses(int fd, uint32_t sequence) {
  AddressRequest request{};
  request.header = {.nlmsg_len = sizeof request,
                    .nlmsg_type = RTM_GETADDR,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = sequence,
                    .nlmsg_pid = 0};
  return send_request(fd, &request, sizeof request);
}

// Reads the answer to one request to its end. Returns true when it is consistent.
Result<bool> read_dump(int fd, uint32_t sequence, std::vector<uint8_t>& buffer,
                       std::vector<Nic>& nics) {
  using Kind = NetlinkReply::Kind;
  for (;;) {
    const ssize_t count = receive(fd, buffer);
    if (count < 0) return system_error("netlink receive", errno);
    const auto bytes = static_cast<size_t>(count);
    const NetlinkReply reply = parse_netlink({buffer.data(), bytes}, sequence, nics);
    switch (reply.kind) {
      case Kind::more:
        break;
      case Kind::done:
        return true;
      // The kernel marks every message after the change, the final one too.
      case Kind::inconsistent:
        return false;
      case Kind::refused:
        return system_error("netlink dump", reply.error);
      case Kind::malformed:
        return Status(Code::system, "netlink: malformed answer");
    }
  }
}

// Returns the driver's speed, by the call that every driver with a speed serves; 0: it has none.
uint64_t link_speed_mbps(int fd, const std::string& name) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (ioctl(fd, SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t speed = ethtool_cmd_speed(&command);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : speed;
}

// Tries both dumps once, each on a socket of its own, so that a broken-off answer cannot mix with
// the next. Returns true when they are consistent.
Result<bool> read_once(std::vector<uint8_t>& buffer, std::vector<Nic>& nics) {
  Status (*const requests[])(int, uint32_t) = {request_links, request_addresses};
  uint32_t sequence = 0;
  for (const auto request : requests) {
    const GuardedFd socket = open_netlink(0);
    if (!socket.valid()) return system_error("netlink socket", errno);
    // The kernel answers a dump within the call; the limit only keeps a lost answer from blocking.
    const timeval limit{.tv_sec = 1, .tv_usec = 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    R2CCL_RETURN_IF_ERROR(request(socket.get(), ++sequence));
    const Result<bool> consistent = read_dump(socket.get(), sequence, buffer, nics);
    if (!consistent.ok() || !consistent.value()) return consistent;
  }
  return true;
}

}  // namespace

Result<std::vector<Nic>> read_nics() {
  std::vector<uint8_t> buffer(kDatagramBytes);
  std::vector<Nic> nics;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    nics.clear();
    const Result<bool> consistent = read_once(buffer, nics);
    if (!consistent.ok()) return consistent.status();
    if (!consistent.value()) continue;
    const GuardedFd socket =
        GuardedFd::from([] { return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
    for (Nic& nic : nics) nic.speed_mbps = link_speed_mbps(socket.get(), nic.name);
    return nics;
  }
  return Status(Code::system, "netlink: interfaces change faster than they can be read");
}

// Asks the kernel from which address a packet to a foreign network would leave. Nothing is sent: a
// datagram socket only notes its remote address. The addresses are those of documents (RFC 5737,
// RFC 3849), so that no network of the site has them.
std::vector<std::string> routed_nics(const std::vector<Nic>& nics) {
  std::vector<std::string> out;
  for (const char* foreign : {"192.0.2.1", "2001:db8::1"}) {
    SocketAddress to = to_socket_address({*parse_address(foreign), 9});
    const GuardedFd socket = GuardedFd::from(
        [&] { return ::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
    if (!socket.valid() || connect(socket.get(), to.get(), to.length) != 0) continue;
    SocketAddress local;
    local.length = sizeof local.storage;
    if (getsockname(socket.get(), local.get(), &local.length) != 0) continue;
    const Address source = to_endpoint(local).address;
    for (const Nic& nic : nics) {
      const bool is_source = std::ranges::any_of(nic.addresses, [&](const Address& own) {
        return own.family == source.family && own.bytes == source.bytes;
      });
      if (is_source && nic.kind != NicKind::loopback) out.push_back(nic.name);
    }
  }
  return out;
}

Result<NicEvents> NicEvents::open() {
  GuardedFd socket = open_netlink(SOCK_NONBLOCK);
  if (!socket.valid()) return system_error("netlink socket", errno);
  sockaddr_nl local{};
  local.nl_family = AF_NETLINK;
  local.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local) != 0) {
    return system_error("netlink bind", errno);
  }
  return NicEvents(std::move(socket));
}

bool NicEvents::drain(std::vector<Nic>& nics) {
  std::array<uint8_t, 16384> buffer;  // the dump that follows has what a longer notice says
  bool changed = false;
  for (;;) {
    const ssize_t count = receive(socket_.get(), buffer);
    if (count > 0) apply_notices({buffer.data(), static_cast<size_t>(count)}, nics);
    // An overrun means that notices were lost, so something has changed.
    if (count > 0 || (count < 0 && errno == ENOBUFS)) changed = true;
    if (count < 0 && errno != ENOBUFS) return changed;
  }
}

}  // namespace r2ccl
