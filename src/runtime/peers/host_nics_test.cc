#include "runtime/peers/host_nics.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

// Returns a rank whose NICs have these numbers: nic2 has the address 10.0.2.<host>.
RankInfo rank_of(int32_t rank, int host, std::initializer_list<int> nics) {
  RankInfo info;
  info.rank = Rank(rank);
  for (const int number : nics) {
    NicInfo& nic = info.nics.emplace_back();
    nic.name = "nic" + std::to_string(number);
    const std::string text = "10.0." + std::to_string(number) + "." + std::to_string(host + 1);
    nic.addresses = {parse_address(text).value()};
    nic.addresses.front().prefix_bits = 24;
  }
  return info;
}

class HostNicsTest : public testing::Test {
 protected:
  HostNics of(const std::vector<uint32_t>& hosts, std::vector<RankInfo> ranks) {
    ranks_ = std::move(ranks);
    std::vector<const RankInfo*> all;
    for (const RankInfo& rank : ranks_) all.push_back(&rank);
    return {HostMap(hosts), all};
  }
  std::vector<RankInfo> ranks_;
};

TEST_F(HostNicsTest, AreThoseOfAllItsRanks) {
  const HostNics nics = of({0, 0, 1, 1}, {rank_of(0, 0, {0}), rank_of(1, 0, {1}),
                                          rank_of(2, 1, {1}), rank_of(3, 1, {0})});
  EXPECT_EQ(nics.names(0), (std::vector<std::string>{"nic0", "nic1"}));
  EXPECT_EQ(nics.names(1), (std::vector<std::string>{"nic1", "nic0"}));
  EXPECT_EQ(nics.rails(0), (std::vector<uint16_t>{0, 1}));
  EXPECT_EQ(nics.rails(1), (std::vector<uint16_t>{1, 0})) << "by subnets";
  EXPECT_EQ(nics.rail_of(Rank(1), NicId(0)), 1);
  EXPECT_EQ(nics.rail_of(Rank(3), NicId(0)), 0);
  EXPECT_EQ(nics.rail_of(Rank(3), NicId(1)), std::nullopt);
  EXPECT_EQ(nics.rail_of(1, "nic0"), 0);
  EXPECT_EQ(nics.rail_of(1, "nic2"), std::nullopt);
  EXPECT_TRUE(nics.uses(Rank(1), 1));
  EXPECT_FALSE(nics.uses(Rank(1), 0));
  EXPECT_FALSE(nics.uses(Rank(1), UINT16_MAX));
}

TEST_F(HostNicsTest, ThatSeveralRanksUseCountOnce) {
  const HostNics nics =
      of({0, 0, 1}, {rank_of(0, 0, {0, 1}), rank_of(1, 0, {1, 0, 2}), rank_of(2, 1, {0, 1, 2})});
  EXPECT_EQ(nics.names(0), (std::vector<std::string>{"nic0", "nic1", "nic2"}));
  EXPECT_EQ(nics.rail_of(Rank(1), NicId(0)), 1);
  EXPECT_EQ(nics.rail_of(Rank(1), NicId(1)), 0);
}

}  // namespace
}  // namespace r2ccl
