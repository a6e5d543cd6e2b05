#include "plan/hosts/rail_division.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "testing/random_rails.h"

namespace r2ccl {
namespace {

constexpr NicRate kNoNic{0, 0};

// The first rail of host 0 is the only one to host 2. Times are those of two NICs: one moves what
// two could move in half the time.
TEST(RailDivision, LeavesANarrowRailToTheFlowThatHasNoOther) {
  const std::vector<HostRates> hosts = {HostRates(2), HostRates(2), {{}, kNoNic}};
  const RailDivision division = divide_over_rails(hosts, {{0, 1, 100}, {0, 2, 100}}, 100);
  EXPECT_LT(division.parts[0], RailDivision::kParts / 32);
  EXPECT_EQ(division.parts[2], RailDivision::kParts);
  EXPECT_NEAR(static_cast<double>(division.load), 2 * 1024, 2 * 1024 / 32);
  EXPECT_EQ(division.load_of_proportions, 3 * 1024U);
}

TEST(RailDivision, IsEmptyWhereTwoHostsShareNoRail) {
  const std::vector<HostRates> hosts = {{{}, kNoNic}, {kNoNic, {}}, HostRates(2)};
  const RailDivision division = divide_over_rails(hosts, {{0, 2, 1}, {0, 1, 1}}, 1);
  EXPECT_TRUE(division.parts.empty());
  EXPECT_EQ(division.load, UINT64_MAX);
  EXPECT_EQ(division.load_of_proportions, UINT64_MAX);
}

std::vector<RailFlow> all_to_all(size_t hosts, std::mt19937& random) {
  std::vector<RailFlow> flows;
  for (uint32_t from = 0; from < hosts; ++from) {
    for (uint32_t to = 0; to < hosts; ++to) {
      if (from != to) flows.push_back({from, to, 1 + random() % 16384});
    }
  }
  return flows;
}

double rate_of(const std::vector<HostRates>& hosts, uint32_t NicRate::*way) {
  uint64_t most = 0;
  for (const HostRates& host : hosts) {
    uint64_t total = 0;
    for (const NicRate& nic : host) total += nic.*way;
    most = std::max(most, total);
  }
  return static_cast<double>(most);
}

// Returns the load by the parts, and expects them on living rails and complete.
double load_of(const std::vector<HostRates>& hosts, const std::vector<RailFlow>& flows,
               const RailDivision& division, double whole) {
  const size_t rails = hosts.front().size();
  std::vector<double> times(hosts.size() * rails * 2);
  for (size_t flow = 0; flow < flows.size(); ++flow) {
    uint64_t sum = 0;
    for (size_t rail = 0; rail < rails; ++rail) {
      const uint64_t parts = division.parts[flow * rails + rail];
      sum += parts;
      if (parts == 0) continue;
      const NicRate& from = hosts[flows[flow].from][rail];
      const NicRate& to = hosts[flows[flow].to][rail];
      EXPECT_TRUE(from.send > 0 && to.receive > 0);
      const double bytes = static_cast<double>(flows[flow].share * parts) / RailDivision::kParts;
      times[(flows[flow].from * rails + rail) * 2] += bytes / from.send;
      times[(flows[flow].to * rails + rail) * 2 + 1] += bytes / to.receive;
    }
    EXPECT_EQ(sum, RailDivision::kParts);
  }
  const double fastest =
      std::max(rate_of(hosts, &NicRate::send), rate_of(hosts, &NicRate::receive));
  return *std::ranges::max_element(times) * fastest * 1024 / whole;
}

TEST(RailDivision, IsCompleteAndNeverWorseThanProportions) {
  std::mt19937 random(3);
  uint64_t best = UINT64_MAX;
  for (size_t count = 3; count <= 33; count += 3) {
    const std::vector<HostRates> hosts = random_rails(count, random);
    std::vector<RailFlow> flows = all_to_all(count, random);
    // Two hosts of these share no rail perhaps, but the first one has all.
    std::erase_if(flows, [](const RailFlow& flow) { return flow.from != 0 && flow.to != 0; });
    const RailDivision division = divide_over_rails(hosts, flows, 16384);
    ASSERT_FALSE(division.parts.empty());
    const double load = load_of(hosts, flows, division, 16384);
    EXPECT_NEAR(static_cast<double>(division.load), load, 0.01 * load) << count << " hosts";
    EXPECT_LE(division.load, division.load_of_proportions);
    best = std::min(best, division.load * 100 / division.load_of_proportions);
  }
  EXPECT_LT(best, 90U);
}

// Hosts 0 and 1 have lost half of their rails and share three others. All hosts send to hosts 2 and
// 3 and hear from them, as `direct` does, and all NICs can be busy all the time.
TEST(RailDivision, KeepsAllNicsBusyWhereThatIsPossible) {
  std::vector<HostRates> hosts(4, HostRates(8));
  for (size_t nic = 0; nic < 4; ++nic) hosts[0][nic] = hosts[1][nic + 1] = kNoNic;
  const std::vector<RailFlow> flows = {{0, 2, 50},  {0, 3, 50}, {1, 2, 50}, {1, 3, 50},
                                       {2, 0, 50},  {3, 0, 50}, {2, 1, 50}, {3, 1, 50},
                                       {2, 3, 100}, {3, 2, 100}};
  const RailDivision division = divide_over_rails(hosts, flows, 100);
  EXPECT_NEAR(static_cast<double>(division.load), 2048, 2048 / 100);
}

// Here moves to the cheapest rails make the busiest NIC busier.
TEST(RailDivision, IsThatOfProportionsWhereMovesMakeItWorse) {
  const HostRates first = {{}, kNoNic};
  const HostRates second = {kNoNic, {}};
  const std::vector<HostRates> hosts = {HostRates(2), HostRates(2), first, first, second};
  const std::vector<RailFlow> flows = {{0, 1, 100}, {2, 1, 150}, {0, 3, 150}, {4, 1, 150}};
  const RailDivision division = divide_over_rails(hosts, flows, 400);
  EXPECT_EQ(division.load, 1024U);
  EXPECT_NEAR(load_of(hosts, flows, division, 400), 1024, 1);
}

TEST(RailDivision, OfExtremeRatesIsComplete) {
  std::vector<HostRates> hosts(3, HostRates(64, NicRate{kNicRateMax, kNicRateMax}));
  hosts[1].assign(64, NicRate{1, kNicRateMax});
  hosts[2].assign(64, kNoNic);
  hosts[2][63] = {1, 1};
  std::mt19937 random(4);
  const std::vector<RailFlow> flows = all_to_all(3, random);
  const RailDivision division = divide_over_rails(hosts, flows, 1);
  ASSERT_EQ(division.parts.size(), flows.size() * 64);
  for (size_t part = 0; part < division.parts.size(); part += 64) {
    EXPECT_EQ(std::accumulate(&division.parts[part], &division.parts[part] + 64, uint64_t{0}),
              RailDivision::kParts);
  }
}

}  // namespace
}  // namespace r2ccl
