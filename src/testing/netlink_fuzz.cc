#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "testing/fuzz.h"
#include "transport/tcp/netlink.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kSequence = 1;

// Writes the messages of a kernel: the counterpart of parse_netlink().
class Kernel {
 public:
  void put_link(const Nic& nic) {
    const auto [hardware_type, driver] = type_of(nic.kind);
    ifinfomsg header{};
    header.ifi_type = hardware_type;
    header.ifi_index = static_cast<int>(nic.index);
    if (nic.up) header.ifi_flags |= IFF_UP;
    if (nic.carrier) header.ifi_flags |= IFF_LOWER_UP | IFF_RUNNING;
    begin(RTM_NEWLINK, &header, sizeof header);
    put_attribute(IFLA_IFNAME, nic.name.data(), nic.name.size());
    put_attribute(IFLA_MTU, &nic.mtu, sizeof nic.mtu);
    put_attribute(IFLA_MASTER, &nic.master, sizeof nic.master);
    put_attribute(IFLA_ADDRESS, nic.hardware.data(), nic.hardware.size());
    const size_t name_bytes = std::strlen(driver);
    Bytes kind;
    append(kind, rtattr{.rta_len = static_cast<uint16_t>(sizeof(rtattr) + name_bytes),
                        .rta_type = IFLA_INFO_KIND});
    kind.insert(kind.end(), driver, driver + name_bytes);
    put_attribute(IFLA_LINKINFO, kind.data(), kind.size());
    end();
  }
  void put_address(const Nic& nic, const Address& address) {
    ifaddrmsg header{};
    header.ifa_family = address.family == AddressFamily::ipv4 ? AF_INET : AF_INET6;
    header.ifa_prefixlen = address.prefix_bits;
    header.ifa_index = nic.index;
    begin(RTM_NEWADDR, &header, sizeof header);
    put_attribute(IFA_ADDRESS, address.bytes.data(),
                  address.family == AddressFamily::ipv4 ? 4 : 16);
    end();
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  static std::pair<uint16_t, const char*> type_of(NicKind kind) {
    switch (kind) {
      case NicKind::other:
        return {ARPHRD_NONE, ""};
      case NicKind::ethernet:
        return {ARPHRD_ETHER, ""};
      case NicKind::infiniband:
        return {ARPHRD_INFINIBAND, ""};
      case NicKind::loopback:
        return {ARPHRD_LOOPBACK, ""};
      case NicKind::veth:
        return {ARPHRD_ETHER, "veth"};
      case NicKind::bridge:
        return {ARPHRD_ETHER, "bridge"};
      case NicKind::tun:
        return {ARPHRD_NONE, "tun"};
      case NicKind::wireguard:
        return {ARPHRD_NONE, "wireguard"};
      case NicKind::dummy:
        return {ARPHRD_ETHER, "dummy"};
      case NicKind::vlan:
        return {ARPHRD_ETHER, "vlan"};
      case NicKind::bond:
        return {ARPHRD_ETHER, "bond"};
      case NicKind::macvlan:
        return {ARPHRD_ETHER, "macvlan"};
      case NicKind::tunnel:
        return {ARPHRD_NONE, "vxlan"};
    }
    return {ARPHRD_NONE, ""};
  }

  template <typename T>
  static void append(Bytes& out, const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  }
  void begin(uint16_t type, const void* header, size_t header_bytes) {
    start_ = bytes_.size();
    append(bytes_, nlmsghdr{.nlmsg_len = 0,
                            .nlmsg_type = type,
                            .nlmsg_flags = 0,
                            .nlmsg_seq = kSequence,
                            .nlmsg_pid = 0});
    put(header, header_bytes);
  }
  void put_attribute(uint16_t type, const void* value, size_t value_bytes) {
    append(bytes_, rtattr{.rta_len = static_cast<uint16_t>(sizeof(rtattr) + value_bytes),
                          .rta_type = type});
    put(value, value_bytes);
  }
  void put(const void* value, size_t value_bytes) {
    const auto* from = static_cast<const uint8_t*>(value);
    bytes_.insert(bytes_.end(), from, from + value_bytes);
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
  }
  void end() {
    const auto size = static_cast<uint32_t>(bytes_.size() - start_);
    std::memcpy(&bytes_[start_], &size, sizeof size);
  }

  Bytes bytes_;
  size_t start_ = 0;  // begin of the message that is being written
};

void check_nic(const Nic& nic) {
  R2CCL_CHECK(!nic.name.empty() && nic.index != 0);
  bool link_local = false;
  for (const Address& address : nic.addresses) {
    const bool is_ipv4 = address.family == AddressFamily::ipv4;
    R2CCL_CHECK(is_ipv4 || address.family == AddressFamily::ipv6);
    R2CCL_CHECK(address.prefix_bits <= (is_ipv4 ? 32 : 128));
    R2CCL_CHECK(!link_local || is_link_local(address));
    link_local = is_link_local(address);
    R2CCL_CHECK(address.scope == (!is_ipv4 && link_local ? nic.index : 0));
  }
}

bool has_unique_indices(const std::vector<Nic>& nics) {
  std::set<uint32_t> indices;
  for (const Nic& nic : nics) indices.insert(nic.index);
  return indices.size() == nics.size();
}

}  // namespace

// The first byte, times 4, is the size of the first of two datagrams; 0: there is one.
bool fuzz_netlink(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const size_t cut = 4 * std::to_integer<size_t>(input[0]);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(input.data()) + 1,
                                       input.size() - 1);
  std::vector<Nic> nics;
  NetlinkReply reply = parse_netlink(bytes.first(std::min(cut, bytes.size())), kSequence, nics);
  if (reply.kind == NetlinkReply::Kind::more) {
    reply = parse_netlink(bytes.subspan(std::min(cut, bytes.size())), kSequence, nics);
  }
  R2CCL_CHECK(reply.error == 0 || reply.kind == NetlinkReply::Kind::refused);
  Kernel kernel;
  for (const Nic& nic : nics) {
    check_nic(nic);
    kernel.put_link(nic);
  }
  for (const Nic& nic : nics) {
    for (const Address& address : nic.addresses) kernel.put_address(nic, address);
  }
  std::vector<Nic> again;
  reply = parse_netlink(kernel.bytes(), kSequence, again);
  R2CCL_CHECK(reply.kind == NetlinkReply::Kind::more && again == nics);
  // The state of each link is all that a notice changes.
  apply_notices(bytes, again);
  R2CCL_CHECK(again.size() == nics.size());
  apply_notices(kernel.bytes(), again);
  R2CCL_CHECK(has_unique_indices(nics) ? again == nics : again.size() == nics.size());
  return !nics.empty();
}

}  // namespace r2ccl
