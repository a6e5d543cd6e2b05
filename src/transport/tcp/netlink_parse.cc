// The pure half of netlink.h. It copies every header before it reads it, because a datagram has no
// reliable alignment, and it trusts no length in a datagram before it has compared it.
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "transport/tcp/netlink.h"

namespace r2ccl {
namespace {

using Bytes = std::span<const uint8_t>;

template <typename T>
std::optional<T> load(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T out;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

// Skips a part and the padding after it.
Bytes after(Bytes bytes, size_t length) {
  const size_t aligned = (length + 3) & ~size_t{3};
  return aligned >= bytes.size() ? Bytes() : bytes.subspan(aligned);
}

// Calls visit(type, payload) for each attribute up to the first whose length does not fit.
template <typename Visit>
void for_each_attribute(Bytes bytes, Visit&& visit) {
  while (const auto header = load<rtattr>(bytes)) {
    if (header->rta_len < sizeof *header || header->rta_len > bytes.size()) return;
    visit(header->rta_type & NLA_TYPE_MASK,
          bytes.subspan(sizeof *header, header->rta_len - sizeof *header));
    bytes = after(bytes, header->rta_len);
  }
}

std::string_view text(Bytes bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), uint8_t{0});
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(end - bytes.begin())};
}

NicKind kind_of(uint16_t hardware_type, std::string_view driver_kind) {
  static constexpr std::pair<std::string_view, NicKind> kKinds[] = {
      {"veth", NicKind::veth},           {"bridge", NicKind::bridge},
      {"openvswitch", NicKind::bridge},  {"tun", NicKind::tun},
      {"wireguard", NicKind::wireguard}, {"dummy", NicKind::dummy},
      {"ifb", NicKind::dummy},           {"vlan", NicKind::vlan},
      {"bond", NicKind::bond},           {"team", NicKind::bond},
      {"ipoib", NicKind::infiniband},    {"macvlan", NicKind::macvlan},
      {"ipvlan", NicKind::macvlan},      {"netkit", NicKind::veth},
  };
  for (const auto& [name, kind] : kKinds) {
    if (name == driver_kind) return kind;
  }
  if (hardware_type == ARPHRD_LOOPBACK) return NicKind::loopback;
  // An unknown name is some other virtual device: vxlan, gre, sit, vrf and so on.
  if (!driver_kind.empty()) return NicKind::tunnel;
  if (hardware_type == ARPHRD_ETHER) return NicKind::ethernet;
  if (hardware_type == ARPHRD_INFINIBAND) return NicKind::infiniband;
  return NicKind::other;
}

void take_link(Bytes payload, std::vector<Nic>& nics) {
  const auto header = load<ifinfomsg>(payload);
  if (!header || header->ifi_family != AF_UNSPEC || header->ifi_index <= 0) return;
  Nic nic;
  nic.index = static_cast<uint32_t>(header->ifi_index);
  nic.up = (header->ifi_flags & IFF_UP) != 0;
  // Lower-up is the cable, running adds the operational state (dormant, lower layer down).
  nic.carrier = (header->ifi_flags & IFF_LOWER_UP) != 0 && (header->ifi_flags & IFF_RUNNING) != 0;
  std::string_view driver_kind;
  for_each_attribute(after(payload, sizeof *header), [&](int type, Bytes value) {
    if (type == IFLA_IFNAME) nic.name = text(value);
    if (type == IFLA_MTU) nic.mtu = load<uint32_t>(value).value_or(0);
    if (type == IFLA_MASTER) nic.master = load<uint32_t>(value).value_or(0);
    if (type == IFLA_ADDRESS && !value.empty()) {
      const Bytes tail = value.last(std::min(value.size(), nic.hardware.size()));
      std::copy(tail.begin(), tail.end(), nic.hardware.begin());
    }
    if (type == IFLA_LINKINFO) {
      for_each_attribute(value, [&](int inner_type, Bytes inner) {
        if (inner_type == IFLA_INFO_KIND) driver_kind = text(inner);
      });
    }
  });
  nic.kind = kind_of(header->ifi_type, driver_kind);
  if (!nic.name.empty()) nics.push_back(std::move(nic));
}

void take_address(Bytes payload, std::vector<Nic>& nics) {
  const auto header = load<ifaddrmsg>(payload);
  if (!header) return;
  const bool is_ipv4 = header->ifa_family == AF_INET;
  if (!is_ipv4 && header->ifa_family != AF_INET6) return;
  const auto nic = std::find_if(nics.begin(), nics.end(),
                                [&](const Nic& one) { return one.index == header->ifa_index; });
  if (nic == nics.end()) return;

  const size_t width = is_ipv4 ? 4 : 16;
  uint32_t flags = header->ifa_flags;
  Bytes address;
  Bytes local;  // on a point-to-point link `address` is the other end's
  for_each_attribute(after(payload, sizeof *header), [&](int type, Bytes value) {
    if (type == IFA_ADDRESS) address = value;
    if (type == IFA_LOCAL) local = value;
    if (type == IFA_FLAGS) flags = load<uint32_t>(value).value_or(flags);
  });
  if (!local.empty()) address = local;
  if (address.size() != width || header->ifa_prefixlen > width * 8) return;
  if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return;

  Address out;
  out.family = is_ipv4 ? AddressFamily::ipv4 : AddressFamily::ipv6;
  std::copy(address.begin(), address.end(), out.bytes.begin());
  out.prefix_bits = header->ifa_prefixlen;
  if (!is_ipv4 && is_link_local(out)) out.scope = nic->index;
  // Put global ones first, otherwise keep the kernel's order.
  const auto place = is_link_local(out) ? nic->addresses.end()
                                        : std::find_if(nic->addresses.begin(), nic->addresses.end(),
                                                       is_link_local);
  nic->addresses.insert(place, out);
}

struct Message {
  nlmsghdr header;
  Bytes payload;
};

// Takes the next message off the datagram; none: its length does not fit.
std::optional<Message> take_message(Bytes& datagram) {
  const auto header = load<nlmsghdr>(datagram);
  if (!header || header->nlmsg_len < sizeof *header || header->nlmsg_len > datagram.size()) {
    return std::nullopt;
  }
  const Bytes payload = datagram.subspan(sizeof *header, header->nlmsg_len - sizeof *header);
  datagram = after(datagram, header->nlmsg_len);
  return Message{*header, payload};
}

}  // namespace

NetlinkReply parse_netlink(Bytes datagram, uint32_t sequence, std::vector<Nic>& nics) {
  using Kind = NetlinkReply::Kind;
  bool inconsistent = false;
  while (!datagram.empty()) {
    const auto message = take_message(datagram);
    if (!message) return {.kind = Kind::malformed, .error = 0};
    const auto& [header, payload] = *message;
    if (header.nlmsg_seq != sequence) continue;
    inconsistent = inconsistent || (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    switch (header.nlmsg_type) {
      case NLMSG_DONE:
        return {.kind = inconsistent ? Kind::inconsistent : Kind::done, .error = 0};
      case NLMSG_ERROR: {
        const auto error = load<nlmsgerr>(payload);
        if (!error) return {.kind = Kind::malformed, .error = 0};
        // Unsigned, because the bytes may hold INT_MIN.
        return {.kind = Kind::refused, .error = static_cast<int>(0U - unsigned(error->error))};
      }
      case RTM_NEWLINK:
        take_link(payload, nics);
        break;
      case RTM_NEWADDR:
        take_address(payload, nics);
        break;
      default:
        break;
    }
  }
  return {.kind = inconsistent ? Kind::inconsistent : Kind::more, .error = 0};
}

void apply_notices(Bytes datagram, std::vector<Nic>& nics) {
  std::vector<Nic> told;
  while (!datagram.empty()) {
    const auto message = take_message(datagram);
    if (!message) break;
    if (message->header.nlmsg_type == RTM_NEWLINK) take_link(message->payload, told);
  }
  take_states(told, nics);
}

void take_states(const std::vector<Nic>& from, std::vector<Nic>& nics) {
  for (const Nic& each : from) {
    const auto known = std::ranges::find(nics, each.index, &Nic::index);
    if (known == nics.end() || known->name != each.name) continue;
    known->up = each.up;
    known->carrier = each.carrier;
  }
}

}  // namespace r2ccl
