#include "runtime/peers/tell_hosts_apart.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

NicInfo nic(const std::string& name, const std::string& address) {
  NicInfo info;
  info.name = name;
  info.addresses = {*parse_address(address)};
  return info;
}

RankInfo rank_on(int32_t rank, const std::string& host, uint8_t identity,
                 std::vector<NicInfo> nics) {
  RankInfo info;
  info.rank = Rank(rank);
  info.host_name = host;
  info.host[0] = std::byte{identity};
  info.nics = std::move(nics);
  return info;
}

TEST(TellHostsApart, LeavesHostsAloneThatDiffer) {
  const std::vector<RankInfo> before = {rank_on(0, "a", 1, {nic("eth0", "10.0.0.1")}),
                                        rank_on(1, "a", 1, {nic("eth1", "10.0.1.1")}),
                                        rank_on(2, "b", 2, {nic("eth0", "10.0.0.2")})};
  std::vector<RankInfo> table = before;
  EXPECT_TRUE(tell_hosts_apart(table).empty());
  EXPECT_EQ(table, before) << "ranks of one host may use different NICs";
}

TEST(TellHostsApart, AddsAnAddressToANameThatTwoHostsHave) {
  std::vector<RankInfo> table = {rank_on(0, "vm", 1, {nic("eth0", "10.0.0.1")}),
                                 rank_on(1, "vm", 2, {nic("eth0", "10.0.0.2")}),
                                 rank_on(2, "vm", 2, {nic("eth1", "10.0.1.2")}),
                                 rank_on(3, "other", 3, {nic("eth0", "10.0.0.3")})};
  const auto told = tell_hosts_apart(table);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("two hosts are called vm: that of rank 0 (10.0.0.1) and that of rank 1 "
                         "(10.0.0.2)"),
            std::string::npos)
      << told[0];
  EXPECT_EQ(table[0].host_name, "vm@10.0.0.1");
  EXPECT_EQ(table[1].host_name, "vm@10.0.0.2");
  EXPECT_EQ(table[2].host_name, "vm@10.0.0.2") << "one host has one name";
  EXPECT_EQ(table[3].host_name, "other");
}

TEST(TellHostsApart, TakesCopiesOfAMachineForTwoHosts) {
  std::vector<RankInfo> table = {rank_on(0, "vm", 1, {nic("eth0", "10.0.0.1")}),
                                 rank_on(1, "vm", 1, {nic("eth0", "10.0.0.2")}),
                                 rank_on(2, "vm", 1, {nic("eth0", "10.0.0.1")}),
                                 rank_on(3, "vm", 1, {nic("eth0", "10.0.0.2")})};
  const auto told = tell_hosts_apart(table);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0].find("one identity"), std::string::npos) << told[0];
  EXPECT_EQ(table[0].host, table[2].host);
  EXPECT_EQ(table[1].host, table[3].host);
  EXPECT_NE(table[0].host, table[1].host);
  EXPECT_EQ(table[3].host_name, "vm@10.0.0.2");
}

TEST(TellHostsApart, ALongNameKeepsItsBound) {
  const std::string name(kHostNameBytesMax, 'x');
  std::vector<RankInfo> table = {rank_on(0, name, 1, {nic("eth0", "10.0.0.1")}),
                                 rank_on(1, name, 2, {nic("eth0", "10.0.0.2")})};
  tell_hosts_apart(table);
  EXPECT_EQ(table[1].host_name.size(), kHostNameBytesMax);
  EXPECT_NE(table[0].host_name, table[1].host_name);
}

TEST(NetworksApart, NamesTheNicsOfBothRanksWhereNoneShareANetwork) {
  const auto in = [](const std::string& name, const std::string& address) {
    NicInfo info = nic(name, address);
    info.addresses[0].prefix_bits = 24;
    return info;
  };
  const RankInfo one = rank_on(0, "a", 1, {in("eth0", "10.91.0.1")});
  const RankInfo other = rank_on(2, "b", 2, {in("eth1", "10.92.0.2"), in("eth2", "10.93.0.2")});
  EXPECT_EQ(networks_apart(one, other),
            "rank 0 uses eth0 (10.91.0.1/24), and rank 2 uses eth1 (10.92.0.2/24), eth2 "
            "(10.93.0.2/24)");
  const RankInfo near = rank_on(1, "b", 2, {in("eth1", "10.92.0.2"), in("eth0", "10.91.0.2")});
  EXPECT_EQ(networks_apart(one, near), "");
}

TEST(SameAddresses, NamesTheAddressWhereOneRankHasNoneOfItsOwn) {
  const RankInfo one = rank_on(0, "a", 1, {nic("eth0", "172.17.0.2"), nic("eth1", "10.0.0.1")});
  const RankInfo other = rank_on(1, "b", 2, {nic("eth0", "172.17.0.2")});
  EXPECT_EQ(same_addresses(one, other),
            "rank 0 and rank 1 are on two hosts that both have the address 172.17.0.2");
  EXPECT_EQ(same_addresses(other, one), "") << "it can be dialled at 10.0.0.1";
  EXPECT_EQ(same_addresses(one, rank_on(1, "b", 2, {})), "");
}

TEST(SameAddresses, CountsNoLinkLocalAddress) {
  const RankInfo one = rank_on(0, "a", 1, {nic("eth0", "172.17.0.2")});
  RankInfo other = rank_on(1, "b", 2, {nic("eth0", "172.17.0.2"), nic("eth1", "169.254.0.7")});
  EXPECT_NE(same_addresses(one, other), "");
  other.nics.erase(other.nics.begin());
  EXPECT_EQ(same_addresses(one, other), "");
}

TEST(CheckReachable, NamesARankThatHasOnlyTheLoopbackWhileOtherHostsHaveANetwork) {
  const auto lone = rank_on(1, "b", 2, {nic("lo", "127.0.0.1")});
  const auto other = rank_on(0, "a", 1, {nic("eth0", "10.0.0.1")});
  const Status status = check_reachable({other, lone});
  EXPECT_NE(status.message().find("rank 1 (host b"), std::string::npos) << status.message();
  EXPECT_EQ(status.ranks(), std::vector<Rank>{Rank(1)});
  // Loopback addresses may stand for hosts, and ranks of one host need no network.
  EXPECT_TRUE(check_reachable({lone, rank_on(0, "a", 1, {nic("lo", "127.0.0.2")})}).ok());
  EXPECT_TRUE(check_reachable({rank_on(0, "b", 2, {nic("eth0", "10.0.0.1")}), lone}).ok());
}

}  // namespace
}  // namespace r2ccl
