#include "plan/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/algorithms.h"
#include "plan/plan.h"

namespace r2ccl {
namespace {

PlanKey key_of(Collective collective, int32_t ranks, uint64_t bytes, int32_t each = 1) {
  PlanKey key;
  key.collective = collective;
  key.type = DataType::int8;
  key.rank_count = ranks;
  key.count = bytes;
  std::vector<uint32_t> host_of;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    host_of.push_back(static_cast<uint32_t>(rank / each));
  }
  key.hosts = HostGroups(host_of);
  return key;
}

// Returns a view whose first host has lost so many thousandths of its bandwidth.
View losing(size_t hosts, uint32_t loss) {
  std::vector<HostRates> rates(hosts, HostRates{{1000, 1000}});
  rates[0] = {{1000 - loss, 1000 - loss}};
  return View::of(rates).value();
}

TEST(ChooseAlgorithm, TakesTheFormThatTheCallerNames) {
  PlanKey key = key_of(Collective::all_reduce, 8, 8, 4);
  for (const Algorithm each : {Algorithm::ring, Algorithm::halving_doubling,
                               Algorithm::recursive_doubling, Algorithm::hierarchical}) {
    key.algorithm = each;
    EXPECT_EQ(choose_algorithm(key), each);
  }
}

TEST(ChooseAlgorithm, TakesNoFormThatTheCallCannotHave) {
  PlanKey key = key_of(Collective::all_reduce, 8, 8);
  key.algorithm = Algorithm::hierarchical;  // each rank has a host of its own
  EXPECT_EQ(choose_algorithm(key), Algorithm::recursive_doubling);
  key = key_of(Collective::all_gather, 2, 0, 2);
  key.blocks.counts = {3, 5};
  for (const Algorithm each : {Algorithm::hierarchical, Algorithm::recursive_doubling}) {
    key.algorithm = each;
    EXPECT_NE(choose_algorithm(key), each);
  }
}

// A cheap hop favours many hops, and cheap bytes favour few: the same call has each algorithm.
TEST(ChooseAlgorithm, FollowsTheCosts) {
  PlanKey key = key_of(Collective::all_reduce, 12, 256 << 10);
  key.costs.network.hop_ns = 5'000;
  EXPECT_EQ(choose_algorithm(key), Algorithm::ring);
  key.costs.network.hop_ns = 1'000'000;
  EXPECT_EQ(choose_algorithm(key), Algorithm::halving_doubling);
  key.costs.network.kib_ps = 100'000;
  key.costs.network.leader_kib_ps = 100'000;
  key.count = 16 << 10;
  EXPECT_EQ(choose_algorithm(key), Algorithm::recursive_doubling);
}

// 1024 bytes take 2.56 ns here, and 2.93 after the loss of one NIC in eight.
TEST(ChooseAlgorithm, SeesALossAmongFastNics) {
  PlanKey key = key_of(Collective::all_reduce, 8, 1 << 30);
  key.costs.network =
      bounded(PlanCosts{.memory = {},
                        .network = domain_costs({5'000, 0, 2'560, 2'560, 5'000, 0, 2'560})})
          .network;
  key.view = losing(8, 125);
  EXPECT_TRUE(uses_forest(choose_algorithm(key)));
  key.view = View();
  EXPECT_EQ(choose_algorithm(key), Algorithm::ring);
}

// The chunks of a forest pass from host to host, and a limited number of them is on the way. Where
// hops take longer than bytes, paths of many hosts are slow and stars are not.
TEST(ChooseAlgorithm, CountsTheHopsOfEachRoundOfAForest) {
  PlanKey key = key_of(Collective::all_reduce, 64, 256 << 20);
  key.costs.network = domain_costs({5'000, 0, 2'560, 2'560, 5'000, 0, 2'560});
  key.view = losing(64, 125);
  const uint64_t bytes_alone = 2 * (256 << 10) * 2'560 / 1000;
  EXPECT_GT(predicted_ns(key, Algorithm::nested), 5 * bytes_alone);
  EXPECT_LT(predicted_ns(key, Algorithm::direct), 2 * bytes_alone);
}

TEST(ChooseAlgorithm, EqualHostsHaveNoForest) {
  PlanKey key = key_of(Collective::all_reduce, 8, 64 << 20);
  EXPECT_EQ(choose_algorithm(key), Algorithm::ring);
  key.view = losing(8, 500);
  EXPECT_TRUE(uses_forest(choose_algorithm(key)));
}

// The other forests know the total of a host only. Where two hosts lost different rails they may
// count on rails that these do not share.
TEST(ChooseAlgorithm, TakesPackedTreesWhereStarsNeedNarrowRails) {
  PlanKey key = key_of(Collective::all_reduce, 8, 256 << 20);
  std::vector<HostRates> rates(8, HostRates(4));
  rates[2][0] = rates[2][1] = {0, 0};
  key.view = View::of(rates).value();
  EXPECT_EQ(choose_algorithm(key), Algorithm::direct);
  rates[5][2] = rates[5][3] = {0, 0};  // hosts 2 and 5 share no rail
  key.view = View::of(rates).value();
  EXPECT_EQ(choose_algorithm(key), Algorithm::packed);
  EXPECT_LT(predicted_ns(key, Algorithm::packed), predicted_ns(key, Algorithm::ring));
  // All hosts share rails here, but for `direct` too few.
  rates.assign(8, HostRates(8));
  const std::vector<size_t> lost = {2, 4, 5, 4};
  for (size_t host = 0; host < lost.size(); ++host) {
    for (size_t nic = host; nic < host + lost[host]; ++nic) rates[host][nic] = {0, 0};
  }
  key.view = View::of(rates).value();
  EXPECT_EQ(choose_algorithm(key), Algorithm::packed);
  EXPECT_LT(predicted_ns(key, Algorithm::packed) * 51 / 50, predicted_ns(key, Algorithm::direct));
}

TEST(ChooseAlgorithm, TakesStarsWhereRailsDivideWell) {
  PlanKey key = key_of(Collective::all_reduce, 4, 64 << 20);
  std::vector<HostRates> rates(4, HostRates(8));
  for (size_t nic = 0; nic < 4; ++nic) rates[0][nic] = rates[1][nic + 1] = {0, 0};
  key.view = View::of(rates).value();
  EXPECT_EQ(choose_algorithm(key), Algorithm::direct);
}

// All hosts meet on their one rail, so the degrees of stars are enough.
TEST(ChooseAlgorithm, TakesStarsWhereAHostIsSlowInOneDirection) {
  PlanKey key = key_of(Collective::all_reduce, 8, 256 << 20);
  std::vector<HostRates> rates(8, HostRates(1));
  rates[2] = {{400, 1000}};
  rates[5] = {{1000, 400}};
  key.view = View::of(rates).value();
  EXPECT_EQ(choose_algorithm(key), Algorithm::direct);
  EXPECT_LT(predicted_ns(key, Algorithm::direct), predicted_ns(key, Algorithm::nested));
}

// 32 staging slots hold half of what arrives in 10 us at 400 GB/s.
TEST(ForestLimits, ChunksFillTheLineFromTheStagingPool) {
  PlanKey key = key_of(Collective::all_reduce, 64, 256 << 20);
  EXPECT_EQ(forest_limits(key, kPlanLimits).segment_bytes_min, kPlanLimits.segment_bytes_min);
  key.costs.network = domain_costs({5'000, 0, 2'560, 2'560, 5'000, 0, 2'560});
  EXPECT_EQ(forest_limits(key, kPlanLimits).segment_bytes_min, 62'500U);
  key.costs.network.leader_hop_ns = kHopNsMax;
  key.costs.network.leader_kib_ps = 0;
  EXPECT_EQ(forest_limits(key, kPlanLimits).segment_bytes_min, kPlanLimits.segment_bytes_max);
}

// One message a hop in a few hops, or all messages in one.
TEST(ChooseAlgorithm, WeighsMessagesAgainstHops) {
  PlanKey key = key_of(Collective::all_gather, 16, 8);
  key.costs.network.message_ns = 1'000;
  EXPECT_EQ(choose_algorithm(key), Algorithm::direct);
  key.costs.network.message_ns = 100'000;
  EXPECT_EQ(choose_algorithm(key), Algorithm::recursive_doubling);
}

TEST(ChooseAlgorithm, PassesBetweenLeadersOnlyWhereTheseAreCheap) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    PlanKey key = key_of(collective, 8, 8, 4);
    EXPECT_EQ(choose_algorithm(key), Algorithm::hierarchical);
    key.costs.memory.leader_message_ns = 1'000'000;
    EXPECT_NE(choose_algorithm(key), Algorithm::hierarchical);
  }
}

TEST(ChooseAlgorithm, LetsTwoRanksOfOneHostExchangeDirectly) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    EXPECT_NE(choose_algorithm(key_of(collective, 2, 8, 2)), Algorithm::hierarchical);
  }
}

// Each algorithm of each call has a time that grows with its bytes, also where the costs are at
// their bounds.
TEST(PredictedTime, GrowsWithTheBytes) {
  for (const bool extreme : {false, true}) {
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast,
                                        Collective::all_gather, Collective::reduce_scatter}) {
      for (const int32_t each : {1, 4, 4096}) {
        PlanKey key = key_of(collective, 4096, 0, each);
        if (extreme) {
          const DomainCosts most = domain_costs({kHopNsMax, kMessageNsMax, kKibPsMax, kKibPsMax,
                                                 kHopNsMax, kMessageNsMax, kKibPsMax});
          key.costs = {most, most};
          std::vector<HostRates> hosts(static_cast<size_t>(4096 / each), {NicRate{1000, 1000}});
          hosts[0] = {NicRate{1, 1000}};
          key.view = View::of(hosts).value();
        }
        for (const Algorithm algorithm : algorithms_of(key)) {
          uint64_t before = 0;
          for (key.count = 1; key.count <= 1 << 18; key.count *= 8) {
            const uint64_t time = predicted_ns(key, algorithm);
            EXPECT_GE(time, before);
            before = time;
          }
          EXPECT_GT(before, 0u);
        }
      }
    }
  }
}

TEST(BoundedCosts, KeepThreeBinaryDigits) {
  PlanCosts costs;
  costs.memory.hop_ns = 1;
  costs.memory.message_ns = 17;
  costs.memory.kib_ps = 0b111'1000;
  costs.network.hop_ns = 0b101'0111;
  costs.network.kib_ps = UINT64_MAX;
  const PlanCosts rounded = bounded(costs);
  EXPECT_EQ(rounded.memory.hop_ns, 1u);
  EXPECT_EQ(rounded.memory.message_ns, 16u);
  EXPECT_EQ(rounded.memory.kib_ps, 0b1000'0000u);
  EXPECT_EQ(rounded.network.hop_ns, 0b101'0000u);
  EXPECT_EQ(rounded.network.kib_ps, kKibPsMax);
  EXPECT_EQ(bounded(rounded), rounded);
}

}  // namespace
}  // namespace r2ccl
