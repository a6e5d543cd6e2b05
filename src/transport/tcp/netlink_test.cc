#include "transport/tcp/netlink.h"

#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "testing/new_network.h"
#include "transport/tcp/tcp_poller.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename T>
void put(Bytes& out, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void pad(Bytes& out) {
  out.resize((out.size() + 3) / 4 * 4);
}

Bytes attribute(uint16_t type, const Bytes& value) {
  Bytes out;
  put(out,
      rtattr{.rta_len = static_cast<uint16_t>(sizeof(rtattr) + value.size()), .rta_type = type});
  out.insert(out.end(), value.begin(), value.end());
  pad(out);
  return out;
}

Bytes text(const char* characters) {
  return {characters, characters + std::strlen(characters) + 1};
}

template <typename T>
Bytes number(T value) {
  Bytes out;
  put(out, value);
  return out;
}

template <typename Header>
Bytes message(uint16_t type, const Header& header, const std::vector<Bytes>& attributes,
              uint16_t flags = 0) {
  Bytes body;
  put(body, header);
  pad(body);
  for (const Bytes& one : attributes) body.insert(body.end(), one.begin(), one.end());
  Bytes out;
  put(out, nlmsghdr{.nlmsg_len = static_cast<uint32_t>(sizeof(nlmsghdr) + body.size()),
                    .nlmsg_type = type,
                    .nlmsg_flags = flags,
                    .nlmsg_seq = 1,
                    .nlmsg_pid = 0});
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Bytes link(int index, const char* name, uint16_t hardware_type, unsigned flags, const char* kind) {
  ifinfomsg header{};
  header.ifi_type = hardware_type;
  header.ifi_index = index;
  header.ifi_flags = flags;
  std::vector<Bytes> attributes = {attribute(IFLA_IFNAME, text(name)),
                                   attribute(IFLA_MTU, number<uint32_t>(9000)),
                                   attribute(IFLA_ADDRESS, {2, 0, 0, 0, 0, 7})};
  if (*kind != '\0') {
    attributes.push_back(attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, text(kind))));
  }
  return message(RTM_NEWLINK, header, attributes);
}

Bytes address(uint32_t index, const Bytes& bytes, uint8_t prefix_bits, uint8_t flags = 0) {
  ifaddrmsg header{};
  header.ifa_family = bytes.size() == 4 ? AF_INET : AF_INET6;
  header.ifa_prefixlen = prefix_bits;
  header.ifa_flags = flags;
  header.ifa_index = index;
  return message(RTM_NEWADDR, header, {attribute(IFA_ADDRESS, bytes)});
}

Bytes join(const std::vector<Bytes>& parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

constexpr unsigned kRunning = IFF_UP | IFF_RUNNING | IFF_LOWER_UP;
const Bytes kLinkLocal6 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
const Bytes kGlobal6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

Bytes sample() {
  return join({link(1, "lo", ARPHRD_LOOPBACK, kRunning, ""),
               link(2, "nic0", ARPHRD_ETHER, kRunning, "veth"),
               link(3, "eth0", ARPHRD_ETHER, IFF_UP, ""), address(2, kLinkLocal6, 64),
               address(2, {10, 1, 2, 3}, 24), address(2, kGlobal6, 48),
               address(9, {10, 9, 9, 9}, 24), message(NLMSG_DONE, int{0}, {})});
}

TEST(NetlinkParse, FillsNicsFromLinksAndAddresses) {
  std::vector<Nic> nics;
  EXPECT_EQ(parse_netlink(sample(), 1, nics).kind, NetlinkReply::Kind::done);
  ASSERT_EQ(nics.size(), 3U);
  EXPECT_EQ(nics[0].kind, NicKind::loopback);
  EXPECT_EQ(nics[1].name, "nic0");
  EXPECT_EQ(nics[1].kind, NicKind::veth);
  EXPECT_EQ(nics[1].mtu, 9000U);
  EXPECT_EQ(nics[1].hardware[5], 7);
  EXPECT_TRUE(nics[1].carrier);
  ASSERT_EQ(nics[1].addresses.size(), 3U);
  EXPECT_EQ(to_string(nics[1].addresses[0]), "10.1.2.3");
  EXPECT_EQ(nics[1].addresses[1].prefix_bits, 48);
  EXPECT_EQ(nics[1].addresses[2].scope, 2U) << "the link-local one comes last and knows its link";
  EXPECT_EQ(nics[2].kind, NicKind::ethernet);
  EXPECT_TRUE(nics[2].up);
  EXPECT_FALSE(nics[2].carrier);
}

TEST(NetlinkParse, TakesTheLastEightBytesOfAnInfinibandAddress) {
  ifinfomsg header{};
  header.ifi_type = ARPHRD_INFINIBAND;
  header.ifi_index = 4;
  Bytes hardware(20);
  for (size_t i = 0; i < hardware.size(); ++i) hardware[i] = static_cast<uint8_t>(i);
  std::vector<Nic> nics;
  parse_netlink(message(RTM_NEWLINK, header,
                        {attribute(IFLA_IFNAME, text("ib0")), attribute(IFLA_ADDRESS, hardware)}),
                1, nics);
  ASSERT_EQ(nics.size(), 1U);
  EXPECT_EQ(nics[0].kind, NicKind::infiniband);
  EXPECT_EQ(nics[0].hardware, (std::array<uint8_t, 8>{12, 13, 14, 15, 16, 17, 18, 19}));
}

TEST(NetlinkParse, LeavesOutAddressesThatCannotBeBound) {
  std::vector<Nic> nics;
  parse_netlink(
      join({link(2, "nic0", ARPHRD_ETHER, kRunning, ""), address(2, kGlobal6, 64, IFA_F_TENTATIVE),
            address(2, {10, 0, 0, 1}, 24, IFA_F_DADFAILED), address(2, {10, 0, 0, 2}, 33),
            address(2, {10, 0, 0}, 24)}),
      1, nics);
  ASSERT_EQ(nics.size(), 1U);
  EXPECT_TRUE(nics[0].addresses.empty());
}

TEST(NetlinkParse, SaysWhenADumpIsSpoiledRefusedOrNotOurs) {
  std::vector<Nic> nics;
  const Bytes spoiled = message(NLMSG_DONE, int{0}, {}, NLM_F_DUMP_INTR);
  EXPECT_EQ(parse_netlink(spoiled, 1, nics).kind, NetlinkReply::Kind::inconsistent);
  const Bytes refused = message(NLMSG_ERROR, nlmsgerr{.error = -EPERM, .msg = {}}, {});
  EXPECT_EQ(parse_netlink(refused, 1, nics).kind, NetlinkReply::Kind::refused);
  EXPECT_EQ(parse_netlink(refused, 1, nics).error, EPERM);
  EXPECT_EQ(parse_netlink(sample(), 2, nics).kind, NetlinkReply::Kind::more);
  EXPECT_TRUE(nics.empty());
}

TEST(NetlinkParse, SurvivesEveryTruncationAndAnyGarbage) {
  const Bytes whole = sample();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    // A copy of exactly this size, so that AddressSanitizer sees one byte too many.
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    std::vector<Nic> nics;
    EXPECT_NE(parse_netlink(part, 1, nics).kind, NetlinkReply::Kind::done);
    EXPECT_LE(nics.size(), 3U);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes broken = whole;
    for (unsigned i = 0; i < 1 + round % 8U; ++i) {
      broken[random() % broken.size()] = static_cast<uint8_t>(random());
    }
    std::vector<Nic> nics;
    parse_netlink(broken, 1, nics);
    EXPECT_LE(nics.size(), 4U);
  }
}

TEST(Netlink, ReadsTheLoopbackOfThisMachine) {
  const Result<std::vector<Nic>> nics = read_nics();
  ASSERT_TRUE(nics.ok()) << nics.status().message();
  const auto lo = std::find_if(nics.value().begin(), nics.value().end(),
                               [](const Nic& nic) { return nic.kind == NicKind::loopback; });
  ASSERT_NE(lo, nics.value().end());
  EXPECT_EQ(lo->name, "lo");
}

TEST(Netlink, FollowsAnInterfaceThroughItsLife) {
  if (!has_iproute2()) GTEST_SKIP() << "needs iproute2";
  const bool entered = in_new_network([] {
    Result<NicEvents> events = NicEvents::open();
    Result<std::unique_ptr<TcpPoller>> poller = TcpPoller::open();
    ASSERT_TRUE(events.ok() && poller.ok());
    ASSERT_TRUE(poller.value()->add(events.value().fd(), 1, false).ok());
    std::array<PollEvent, 1> ready;
    std::vector<Nic> told;  // nothing: the kernel's notices are all that counts here
    EXPECT_FALSE(events.value().drain(told));
    const auto noticed = [&] {
      return poller.value()->wait(ready, 5 * kSecond) == 1 && events.value().drain(told);
    };
    ASSERT_EQ(ip("link add nic0 type veth peer name nic1"), 0);
    EXPECT_TRUE(noticed());
    ASSERT_EQ(ip("addr add 10.1.2.3/24 dev nic0"), 0);
    EXPECT_TRUE(noticed());
    ASSERT_EQ(ip("link set nic0 up"), 0);
    ASSERT_EQ(ip("link set nic1 up"), 0);
    EXPECT_TRUE(noticed());
    const auto nic0 = [] {
      const Result<std::vector<Nic>> nics = read_nics();
      for (const Nic& nic : nics.value()) {
        if (nic.name == "nic0") return nic;
      }
      return Nic{};
    };
    // The kernel handles the carrier's consequences a moment later; the notice ends the wait.
    for (int i = 0; i < 8 && !nic0().carrier; ++i) noticed();
    const Nic alive = nic0();
    EXPECT_EQ(alive.kind, NicKind::veth);
    EXPECT_TRUE(alive.up && alive.carrier);
    EXPECT_EQ(to_string(alive.addresses.at(0)), "10.1.2.3");
    ASSERT_EQ(ip("link set nic1 down"), 0);  // as if the cable were pulled
    EXPECT_TRUE(noticed());
    for (int i = 0; i < 8 && nic0().carrier; ++i) noticed();
    EXPECT_TRUE(nic0().up);
    EXPECT_FALSE(nic0().carrier);
    ASSERT_EQ(ip("link set nic0 down"), 0);
    EXPECT_TRUE(noticed());
    EXPECT_FALSE(nic0().up);
  });
  if (!entered) GTEST_SKIP() << "may not make a network namespace";
}

}  // namespace
}  // namespace r2ccl
