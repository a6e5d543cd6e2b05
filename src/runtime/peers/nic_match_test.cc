#include "runtime/peers/nic_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/limits.h"

namespace r2ccl {
namespace {

Address address(const std::string& text, uint8_t prefix_bits = 24) {
  Address a = parse_address(text).value();
  a.prefix_bits = prefix_bits;
  return a;
}

NicInfo nic(const std::string& name, std::vector<Address> addresses, uint16_t port = 0) {
  NicInfo info;
  info.name = name;
  info.addresses = std::move(addresses);
  info.port = port;
  return info;
}

// Returns a rank on a host of its own, whose i-th NIC has the i-th address.
RankInfo info(int rank, const std::vector<std::string>& addresses, uint8_t prefix_bits = 24) {
  RankInfo c;
  c.rank = Rank(rank);
  c.host.fill(static_cast<std::byte>(rank + 1));
  for (size_t i = 0; i < addresses.size(); ++i) {
    c.nics.push_back(nic("nic" + std::to_string(i), {address(addresses[i], prefix_bits)},
                         static_cast<uint16_t>(1000 * (rank + 1) + static_cast<int>(i))));
  }
  c.control = {{address("192.168.0." + std::to_string(rank + 1)), 7000},
               {address("127.0.0.1", 8), static_cast<uint16_t>(7001 + rank)}};
  return c;
}

NicPair pair(uint16_t lower, uint16_t higher) {
  return {NicId(lower), NicId(higher)};
}

using Pairs = std::vector<NicPair>;

TEST(MatchNics, PairsEachNicWithTheOneInItsSubnet) {
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1", "10.0.1.1"}), info(1, {"10.0.0.2", "10.0.1.2"})),
            (Pairs{pair(0, 0), pair(1, 1)}));
  // The order of the NICs does not matter.
  EXPECT_EQ(match_nics(info(0, {"10.0.1.1", "10.0.0.1"}), info(1, {"10.0.0.2", "10.0.1.2"})),
            (Pairs{pair(0, 1), pair(1, 0)}));
}

TEST(MatchNics, PairsNicsOfOneSharedSubnetOneToOne) {
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1", "10.0.0.2"}), info(1, {"10.0.0.3", "10.0.0.4"})),
            (Pairs{pair(0, 0), pair(1, 1)}));
}

TEST(MatchNics, LeavesNoNicIdleWhenOneSideHasMore) {
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1"}), info(1, {"10.0.0.2", "10.0.0.3"})),
            (Pairs{pair(0, 0), pair(0, 1)}));
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1", "10.0.0.4"}), info(1, {"10.0.0.2"})),
            (Pairs{pair(0, 0), pair(1, 0)}));
}

TEST(MatchNics, SharesTheFewerNicsEvenlyAmongTheMore) {
  const auto pairs =
      match_nics(info(0, {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}),
                 info(1, {"10.0.0.11", "10.0.0.12"}));
  ASSERT_EQ(pairs.size(), 6u);
  std::map<uint16_t, int> uses;
  for (const NicPair& each : pairs) ++uses[each.higher.value()];
  EXPECT_EQ(uses[0], 3);
  EXPECT_EQ(uses[1], 3);
}

std::vector<std::vector<uint16_t>> rails(const std::vector<RankInfo>& ranks) {
  std::vector<const RankInfo*> all;
  for (const RankInfo& rank : ranks) all.push_back(&rank);
  return match_rails(all);
}
using Rails = std::vector<std::vector<uint16_t>>;

TEST(MatchRails, PutsNicsOfOneSubnetOnOneRail) {
  const std::vector<std::string> first = {"10.0.0.1", "10.0.1.1", "10.0.2.1"};
  EXPECT_EQ(rails({info(0, first), info(1, {"10.0.0.2", "10.0.1.2", "10.0.2.2"})}),
            (Rails{{0, 1, 2}, {0, 1, 2}}));
  // The second one lacks its first NIC, the third one has an order of its own.
  EXPECT_EQ(rails({info(0, first), info(1, {"10.0.1.2", "10.0.2.2"}),
                   info(2, {"10.0.2.3", "10.0.0.3", "10.0.1.3"})}),
            (Rails{{0, 1, 2}, {1, 2}, {2, 0, 1}}));
  EXPECT_EQ(rails({info(0, {"10.0.2.1"}), info(1, {"10.0.0.2", "10.0.1.2", "10.0.2.2"})}),
            (Rails{{2}, {0, 1, 2}}));
}

TEST(MatchRails, GoesByTheOrderWithoutCommonSubnets) {
  EXPECT_EQ(rails({info(0, {"10.0.0.1", "10.0.1.1"}), info(1, {"10.1.0.1", "10.1.1.1"})}),
            (Rails{{0, 1}, {0, 1}}));
  EXPECT_EQ(
      rails({info(0, {"10.0.0.1", "10.0.1.1", "10.0.2.1"}), info(1, {"10.9.0.1", "10.0.0.2"})}),
      (Rails{{0, 1, 2}, {1, 0}}));
}

TEST(MatchRails, GivesEachNicOfARankARailOfItsOwn) {
  EXPECT_EQ(rails({info(0, {"10.0.0.1", "10.0.0.2"}), info(1, {"10.0.0.3", "10.0.0.4"})}),
            (Rails{{0, 1}, {0, 1}}));
  EXPECT_EQ(rails({info(0, {"10.0.0.1", "10.0.1.1"}), info(1, {"10.0.1.2", "10.0.1.3"})}),
            (Rails{{0, 1}, {1, 0}}));
  EXPECT_EQ(rails({info(0, {}), info(1, {})}), (Rails{{}, {}}));
}

TEST(MatchNics, TriesARouteBetweenNicsWithoutACommonSubnet) {
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1", "10.0.9.1"}), info(1, {"10.0.0.2", "10.0.8.2"})),
            (Pairs{pair(0, 0), pair(1, 1)}));
  EXPECT_EQ(
      match_nics(info(0, {"10.0.5.1", "10.0.0.1"}), info(1, {"10.0.0.2", "10.0.6.1", "10.0.7.1"})),
      (Pairs{pair(1, 0), pair(0, 1), pair(0, 2)}));
}

TEST(MatchNics, LeavesANicIdleWhenAllOfTheOtherSideHavePartnersInTheirSubnets) {
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1", "10.0.9.1"}), info(1, {"10.0.0.2"})),
            (Pairs{pair(0, 0)}));
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1"}), info(1, {"10.0.9.2", "10.0.0.2"})),
            (Pairs{pair(0, 1)}));
}

TEST(MatchNics, PairsByOrderOnARoutedFabric) {
  EXPECT_EQ(match_nics(info(0, {"10.0.0.1", "10.0.1.1"}), info(1, {"10.1.0.1", "10.1.1.1"})),
            (Pairs{pair(0, 0), pair(1, 1)}));
  EXPECT_EQ(
      match_nics(info(0, {"10.0.0.1", "10.0.1.1"}), info(1, {"10.1.0.1", "10.1.1.1", "10.1.2.1"})),
      (Pairs{pair(0, 0), pair(1, 1), pair(0, 2)}));
}

TEST(MatchNics, PairsIpv6NicsBySubnetAndLinkLocalOnesOfOneRail) {
  EXPECT_EQ(
      match_nics(info(0, {"fd00:1::1", "fd00:2::1"}, 64), info(1, {"fd00:2::2", "fd00:1::2"}, 64)),
      (Pairs{pair(0, 1), pair(1, 0)}));
}

TEST(MatchNics, FindsNoPathBetweenFamilies) {
  EXPECT_TRUE(match_nics(info(0, {"10.0.0.1"}), info(1, {"fd00::1"}, 64)).empty());
  EXPECT_TRUE(match_nics(info(0, {}), info(1, {"10.0.0.1"})).empty());
  EXPECT_TRUE(match_nics(info(0, {}), info(1, {})).empty());
}

TEST(MatchNics, UsesTheAddressThatBothNicsShareASubnetIn) {
  RankInfo a = info(0, {});
  RankInfo b = info(1, {});
  a.nics.push_back(nic("eth0", {address("172.16.0.1"), address("10.0.0.1")}));
  b.nics.push_back(nic("eth0", {address("fd00::2", 64), address("10.0.0.2")}, 4242));
  const auto paths = make_paths(a, b);
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0].source, address("10.0.0.1"));
  EXPECT_EQ(paths[0].remote.address, address("10.0.0.2"));
  EXPECT_EQ(paths[0].remote.port, 4242);
}

// A container engine gives every host the same address; so it may stand on a NIC.
TEST(MatchNics, AnAddressThatBothHaveIsNoCommonSubnet) {
  RankInfo a = info(0, {"172.17.0.1", "10.0.0.1"});
  RankInfo b = info(1, {"10.0.0.2", "172.17.0.1"});
  EXPECT_EQ(match_nics(a, b), (Pairs{pair(1, 0), pair(0, 1)}));
  a.nics[0].addresses.push_back(address("10.0.0.9"));
  EXPECT_EQ(match_nics(a, b), (Pairs{pair(0, 0), pair(1, 0)}));
}

TEST(MatchNics, LinkLocalAddressesAreNoCommonSubnet) {
  RankInfo a = info(0, {"10.0.0.1", "10.0.1.1"});
  RankInfo b = info(1, {"10.0.1.2", "10.0.0.2"});
  for (RankInfo* each : {&a, &b}) {
    for (NicInfo& one : each->nics) one.addresses.push_back(address("fe80::1", 64));
  }
  EXPECT_EQ(match_nics(a, b), (Pairs{pair(0, 1), pair(1, 0)}));
}

TEST(MakePaths, ContainersOfOneNetworkNamespaceMayReachEachOtherAtTheirOwnAddress) {
  RankInfo a = info(0, {"10.0.0.1"});
  RankInfo b = info(1, {"10.0.0.1"});
  a.nics[0].hardware = b.nics[0].hardware = {0, 0, 2, 1, 2, 3, 4, 5};
  EXPECT_TRUE(make_paths(a, b)[0].one_network);
  b.nics[0].hardware[7] = 6;
  EXPECT_FALSE(make_paths(a, b)[0].one_network);
}

TEST(MakePaths, ANicIsAlsoTriedAtTheAddressesOfOthersInItsSubnet) {
  const auto paths = make_paths(info(0, {"10.0.0.1", "10.0.0.2", "10.0.1.1"}),
                                info(1, {"10.0.0.3", "10.0.0.4", "10.0.1.2"}));
  const auto remotes = [&](size_t path) {
    std::vector<std::string> texts;
    for (const AddressPair& each : paths[path].addresses.pairs()) {
      texts.push_back(to_string(each.remote));
    }
    return texts;
  };
  EXPECT_EQ(remotes(0), (std::vector<std::string>{"10.0.0.3", "10.0.0.4"}));
  EXPECT_EQ(remotes(1), (std::vector<std::string>{"10.0.0.4", "10.0.0.3"}));
  EXPECT_EQ(remotes(2), (std::vector<std::string>{"10.0.1.2"}));
}

TEST(MatchNics, StaysWithinTheNumberOfPathsThatAFrameCanReport) {
  // Subnet 0: 64 NICs face one. Subnet 1: one faces 63. No NIC may be left over.
  RankInfo a = info(0, {});
  RankInfo b = info(1, {});
  for (size_t i = 0; i < limits::kNicsMax; ++i) {
    const std::string low = std::to_string(i + 1);
    a.nics.push_back(nic("a" + low, {address(i < 63 ? "10.0.0." + low : "10.0.1.1")}));
    b.nics.push_back(nic("b" + low, {address(i == 0 ? "10.0.0.200" : "10.0.1.1" + low)}));
  }
  EXPECT_LE(make_paths(a, b).size(), limits::kPathsMax);
}

TEST(MakePaths, BothEndsComputeTheSame) {
  const std::vector<std::vector<std::string>> shapes = {
      {"10.0.0.1", "10.0.1.1"}, {"10.0.1.7"}, {"10.0.0.8", "10.0.0.9", "10.0.1.9"}, {"10.9.0.1"}};
  for (const auto& mine : shapes) {
    for (const auto& theirs : shapes) {
      const RankInfo a = info(0, mine);
      const RankInfo b = info(1, theirs);
      const auto from_a = make_paths(a, b);
      const auto from_b = make_paths(b, a);
      ASSERT_EQ(from_a.size(), from_b.size());
      std::set<PathId> ids;
      for (size_t i = 0; i < from_a.size(); ++i) {
        EXPECT_EQ(from_a[i].id, from_b[i].id);
        EXPECT_TRUE(ids.insert(from_a[i].id).second);
        EXPECT_EQ(from_a[i].local_nic, from_b[i].remote_nic);
        EXPECT_EQ(from_a[i].remote_nic, from_b[i].local_nic);
        EXPECT_EQ(from_a[i].control_only, from_b[i].control_only);
        if (from_a[i].control_only) continue;
        EXPECT_EQ(from_a[i].source, from_b[i].remote.address);
        EXPECT_EQ(from_a[i].remote.port, b.nics[from_a[i].remote_nic.value()].port);
        EXPECT_EQ(from_a[i].device, a.nics[from_a[i].local_nic.value()].name);
      }
    }
  }
}

TEST(MakePaths, EndWithTheOutOfBandPathWhereBothHaveOne) {
  RankInfo a = info(0, {"10.0.0.1"});
  const RankInfo b = info(1, {"10.0.0.2"});
  const auto paths = make_paths(a, b);
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_FALSE(paths[0].control_only);
  EXPECT_TRUE(paths[1].control_only);
  EXPECT_EQ(paths[1].remote, b.control.front());
  EXPECT_EQ(paths[1].source, a.control.front().address);
  a.control.erase(a.control.begin());
  EXPECT_EQ(make_paths(a, b).size(), 1u);
  EXPECT_EQ(make_paths(b, a).size(), 1u);
}

TEST(MakePaths, RanksOfOneHostMeetOnLoopback) {
  const RankInfo a = info(0, {"10.0.0.1"});
  RankInfo b = info(1, {"10.0.0.1"});
  b.host = a.host;
  const auto paths = make_paths(a, b);
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0].remote, b.control.back());
  EXPECT_EQ(paths[0].local_nic, kNoNic);
  EXPECT_TRUE(paths[0].device.empty());
  EXPECT_EQ(make_paths(b, a)[0].id, paths[0].id);
  b.control.clear();  // the rank info comes from another process
  EXPECT_TRUE(make_paths(a, b).empty());
}

TEST(MakePaths, RanksOfOneHostShareMemoryIfBothListenThereAndHaveLoAsTheFallback) {
  RankInfo a = info(0, {"10.0.0.1"});
  RankInfo b = info(1, {"10.0.0.1"});
  a.shm = {.address = {.family = AddressFamily::local, .bytes = {1}, .prefix_bits = 0, .scope = 0},
           .port = 1};
  b.shm = {.address = {.family = AddressFamily::local, .bytes = {2}, .prefix_bits = 0, .scope = 0},
           .port = 1};
  EXPECT_FALSE(make_paths(a, b).front().is_shm()) << "the hosts differ";
  b.host = a.host;
  const auto paths = make_paths(a, b);
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_TRUE(paths[0].is_shm());
  EXPECT_EQ(paths[0].remote, b.shm);
  EXPECT_FALSE(paths[0].fallback);
  EXPECT_EQ(paths[1].remote, b.control.back());
  EXPECT_TRUE(paths[1].fallback);
  EXPECT_NE(paths[0].id, paths[1].id);
  EXPECT_EQ(make_paths(b, a)[0].id, paths[0].id);
  b.shm = {};
  ASSERT_EQ(make_paths(a, b).size(), 1u);
  EXPECT_FALSE(make_paths(a, b).front().fallback);
}

TEST(MakePaths, ALinkLocalPeerIsReachedThroughTheNicThatSharesItsLink) {
  RankInfo a = info(0, {"fe80::1"}, 64);
  const RankInfo b = info(1, {"fe80::2"}, 64);
  a.nics[0].addresses[0].scope = 3;
  const auto paths = make_paths(a, b);
  ASSERT_FALSE(paths.empty());
  EXPECT_EQ(paths[0].remote.address.scope, 3u);
}

}  // namespace
}  // namespace r2ccl
