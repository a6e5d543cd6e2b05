#include "runtime/peers/job_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace r2ccl {
namespace {

std::vector<RankInfo> ranks_on(std::span<const uint8_t> hosts) {
  std::vector<RankInfo> ranks;
  for (const uint8_t host : hosts) {
    RankInfo& info = ranks.emplace_back();
    info.rank = Rank(static_cast<int32_t>(ranks.size() - 1));
    info.host[0] = std::byte{host};
  }
  return ranks;
}

TEST(JobMap, NumbersHostsInTheOrderOfTheirLowestRanks) {
  const std::array<uint8_t, 5> hosts = {9, 4, 9, 7, 4};
  const JobMap map(Rank(0), ranks_on(hosts));
  EXPECT_EQ(map.host_numbers(), (std::vector<uint32_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_EQ(map.leader(1), Rank(1));
  EXPECT_TRUE(std::ranges::equal(map.ranks_of(1), std::array{Rank(1), Rank(4)}));
  EXPECT_EQ(map.host_of(Rank(3)), 2);
}

TEST(HostMap, TakesAnyNumbers) {
  const std::array<uint32_t, 4> numbers = {5, 8, 5, 2};
  const HostMap map(numbers);
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_EQ(map.host_numbers(), (std::vector<uint32_t>{0, 1, 0, 2}));
  EXPECT_EQ(map.leader(2), Rank(3));
  EXPECT_EQ(HostMap().hosts(), 0);
}

TEST(JobMap, KnowsWhichRanksItHas) {
  const std::array<uint8_t, 2> hosts = {1, 1};
  const JobMap map(Rank(0), ranks_on(hosts));
  EXPECT_TRUE(map.has(Rank(1)));
  EXPECT_FALSE(map.has(Rank(2)));
  EXPECT_FALSE(map.has(Rank(-1)));
}

}  // namespace
}  // namespace r2ccl
