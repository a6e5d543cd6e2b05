#include "plan/ring_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace r2ccl {
namespace {

// Returns hosts whose rails are given as "1101": '0' is a lost NIC.
View view_of(const std::vector<std::string>& rails) {
  std::vector<HostRates> hosts;
  for (const std::string& each : rails) {
    HostRates rates;
    for (const char nic : each) rates.push_back(nic == '1' ? NicRate{} : NicRate{0, 0});
    hosts.push_back(rates);
  }
  return View::of(hosts).value();
}

// Returns whether the rank exchanges messages with one of these.
bool meets(const RankPlan& plan, const std::vector<Rank>& peers) {
  return std::ranges::any_of(plan.steps, [&](const Step& step) {
    return step.kind != StepKind::copy && std::ranges::find(peers, step.peer) != peers.end();
  });
}

uint64_t least_of(const View& view, const std::vector<uint32_t>& order) {
  uint64_t least = UINT64_MAX;
  for (size_t at = 0; at < order.size(); ++at) {
    least = std::min(
        least, shared_rate(view.hosts()[order[at]], view.hosts()[order[(at + 1) % order.size()]]));
  }
  return least;
}

TEST(RingOrder, AHostWithAllRailsStandsBetweenHostsThatShareNone) {
  const View view = view_of({"10", "01", "11", "11"});
  const std::vector<uint32_t> order = ring_order(view, 4);
  EXPECT_EQ(order[0], 0u);
  EXPECT_EQ(order[2], 1u);
  EXPECT_EQ(least_of(view, order), 1000u);
}

TEST(RingOrder, KeepsTheOrderWhereNothingIsBetter) {
  const View view = view_of({"1110", "1111", "1111", "1111", "1111"});
  EXPECT_EQ(ring_order(view, 5), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ring_order(View(), 3), (std::vector<uint32_t>{0, 1, 2}));
}

// No message between the first two hosts can arrive.
TEST(RingOrder, HostsThatShareNoRailAreNeverNeighboursInAnAutomaticPlan) {
  PlanKey key;
  key.rank_count = 4;
  key.view = view_of({"10", "01", "11", "11"});
  EXPECT_FALSE(all_share_rails(key.view));
  EXPECT_TRUE(all_share_rails(view_of({"110", "011", "111", "111"})));
  EXPECT_TRUE(rails_differ(view_of({"110", "011", "111", "111"})));
  EXPECT_TRUE(rails_differ(view_of({"110", "11", "111", "111"})));
  EXPECT_FALSE(rails_differ(view_of({"110", "111", "111", "111"})));
  for (const Collective collective :
       {Collective::all_reduce, Collective::broadcast, Collective::reduce, Collective::all_gather,
        Collective::reduce_scatter}) {
    for (const uint64_t count : {10, 100'000, 10'000'000}) {
      key.collective = collective;
      key.count = count;
      EXPECT_FALSE(meets(make_plan(key, Rank(0)), {Rank(1)}));
    }
  }
  // The same with two ranks on each host.
  key.rank_count = 8;
  key.hosts = HostGroups(std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3, 3});
  key.collective = Collective::all_reduce;
  for (const uint64_t count : {10, 100'000, 10'000'000}) {
    key.count = count;
    for (const int32_t rank : {0, 1}) {
      EXPECT_FALSE(meets(make_plan(key, Rank(rank)), {Rank(2), Rank(3)}));
    }
  }
}

TEST(RingOrder, TheSlowestHostEndsAChain) {
  PlanKey key;
  key.rank_count = 4;
  key.count = 1 << 20;
  key.algorithm = Algorithm::ring;
  key.view = View::of({{{1000, 1000}}, {{500, 1000}}, {{1000, 400}}, {{1000, 1000}}}).value();
  const auto has_only = [&](int32_t rank, bool sends) {
    const RankPlan plan = make_plan(key, Rank(rank));
    return std::ranges::all_of(
        plan.steps, [&](const Step& step) { return (step.kind == StepKind::send) == sends; });
  };
  key.collective = Collective::broadcast;
  EXPECT_TRUE(has_only(1, false));
  EXPECT_FALSE(has_only(2, false));
  // Backwards the end of the chain receives nothing.
  key.collective = Collective::reduce;
  EXPECT_TRUE(has_only(2, true));
  EXPECT_FALSE(has_only(1, true));
}

// All orders of a few hosts are tried.
TEST(RingOrder, IsTheBestOrderOfAFewHosts) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const auto hosts = static_cast<size_t>(4 + trial % 4);
    const auto rate = [&] { return static_cast<uint32_t>(random() % 3 * 500); };
    std::vector<HostRates> rates(hosts, HostRates(3));
    for (HostRates& host : rates) {
      for (NicRate& nic : host) nic = {rate(), rate()};
      host[random() % 3] = {1000, 1000};
    }
    const View view = View::of(rates).value();
    if (view.empty()) continue;
    std::vector<uint32_t> order(hosts);
    std::iota(order.begin(), order.end(), 0);
    uint64_t best = 0;
    do {
      best = std::max(best, least_of(view, order));
    } while (std::next_permutation(order.begin() + 1, order.end()));
    EXPECT_EQ(least_of(view, ring_order(view, hosts)), best) << "trial " << trial;
  }
}

TEST(RingOrder, ManyHostsThatLostOneOfTwoRailsAreOrderedWithoutAPairThatSharesNone) {
  for (const size_t hosts : {16, 64, 256}) {
    std::vector<std::string> rails(hosts, "11");
    for (size_t host = 0; host < hosts / 2; ++host) rails[host] = host % 2 == 0 ? "10" : "01";
    const View view = view_of(rails);
    const std::vector<uint32_t> order = ring_order(view, hosts);
    std::vector<uint32_t> sorted = order;
    std::ranges::sort(sorted);
    for (uint32_t host = 0; host < hosts; ++host) ASSERT_EQ(sorted[host], host);
    EXPECT_EQ(least_of(view, order), 1000u) << hosts << " hosts";
  }
}

}  // namespace
}  // namespace r2ccl
