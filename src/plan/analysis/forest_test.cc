#include "plan/forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan/analysis/checker.h"
#include "plan/analysis/floor.h"
#include "plan/cost_model.h"
#include "testing/random_rails.h"
#include "testing/tiny_plans.h"

namespace r2ccl {
namespace {

constexpr std::array kForests{Algorithm::direct,          Algorithm::nested, Algorithm::split,
                              Algorithm::recursive_split, Algorithm::leaf,   Algorithm::packed};

PlanKey key_of(Algorithm algorithm, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.algorithm = algorithm;
  key.rank_count = ranks;
  key.count = count;
  key.costs = tiny_costs();
  return key;
}

// Returns a view of hosts with up to four NICs, of which some are slow: in both directions, or also
// in one.
View random_view(size_t hosts, std::mt19937& random, bool one_way = true) {
  const auto draw = [&](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  std::vector<HostRates> rates(hosts, HostRates(draw(1, 4)));
  for (HostRates& host : rates) {
    for (NicRate& nic : host) {
      if (draw(0, 3) > 0) continue;
      nic.send = draw(1, 1500);
      nic.receive = one_way && draw(0, 1) == 0 ? draw(1, 1500) : nic.send;
    }
  }
  return View::of(rates).value();
}

View view_of(const std::vector<uint32_t>& permille) {
  std::vector<HostRates> rates;
  for (const uint32_t each : permille) rates.push_back({NicRate{each, each}});
  return View::of(rates).value();
}

Status prove(PlanKey key, const PlanLimits& limits) {
  std::vector<PlanKey> keys;
  std::vector<RankPlan> plans;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    key.in_place = rank % 3 == 1 && key.collective != Collective::all_to_all;
    keys.push_back(key);
    plans.push_back(make_plan(key, Rank(rank), limits));
  }
  return check_plan(keys, plans);
}

TEST(Forest, ProvesEveryAlgorithmForRandomViewsUpTo33Hosts) {
  std::mt19937 random(1);
  for (int32_t ranks = 2; ranks <= 33; ++ranks) {
    const auto p = static_cast<uint64_t>(ranks);
    for (const Algorithm algorithm : kForests) {
      for (const uint64_t count : {uint64_t{1}, p - 1, 7 * p + 3, ranks < 12 ? 101 * p : 11 * p}) {
        PlanKey key = key_of(algorithm, ranks, count);
        key.view = random_view(p, random);
        const Status proof = prove(key, tiny_limits());
        ASSERT_TRUE(proof.ok()) << "p " << p << " count " << count << " algorithm "
                                << static_cast<int>(algorithm) << ": " << proof.message();
      }
    }
  }
}

TEST(Forest, ProvesEveryForestForRandomRailsUpTo33Hosts) {
  std::mt19937 random(6);
  for (int32_t ranks = 2; ranks <= 33; ++ranks) {
    const auto p = static_cast<uint64_t>(ranks);
    for (const Algorithm algorithm : {Algorithm::packed, Algorithm::direct}) {
      for (const uint64_t count : {uint64_t{1}, p - 1, 7 * p + 3, ranks < 12 ? 901 * p : 51 * p}) {
        PlanKey key = key_of(algorithm, ranks, count);
        key.view = View::of(random_rails(p, random)).value();
        const Status proof = prove(key, tiny_limits());
        ASSERT_TRUE(proof.ok()) << "p " << p << " count " << count << " algorithm "
                                << static_cast<int>(algorithm) << ": " << proof.message();
      }
    }
  }
}

// Several ranks a host, and more chunks than there are trees.
TEST(Forest, ProvesPackedTreesInSeveralCycles) {
  std::mt19937 random(7);
  for (const int32_t each : {1, 2}) {
    PlanKey key = key_of(Algorithm::packed, 3 * each, 9000);
    std::vector<uint32_t> host_of;
    for (int32_t rank = 0; rank < key.rank_count; ++rank) {
      host_of.push_back(static_cast<uint32_t>(rank / each));
    }
    key.hosts = HostGroups(host_of);
    key.view = View::of(random_rails(3, random)).value();
    const auto packing = packing_for(key.view, key.algorithm);
    ASSERT_NE(packing, nullptr);
    const ForestPlan forest(key.view, 3, 0, key.algorithm, key.count, key.type, tiny_limits());
    ASSERT_GT(forest.chunks(), 2 * packing->trees.size());
    const Status proof = prove(key, tiny_limits());
    EXPECT_TRUE(proof.ok()) << each << " ranks a host: " << proof.message();
  }
}

TEST(Forest, ProvesEveryAlgorithmAmongHostsOfSeveralRanks) {
  std::mt19937 random(2);
  for (int32_t ranks = 2; ranks <= 17; ++ranks) {
    std::vector<uint32_t> host_of;
    for (int32_t rank = 0; rank < ranks; ++rank) host_of.push_back(static_cast<uint32_t>(rank / 3));
    for (const Algorithm algorithm : kForests) {
      PlanKey key = key_of(algorithm, ranks, 301);
      key.hosts = HostGroups(host_of);
      key.view = random_view(host_count(key), random);
      for (const DataType type : {DataType::float32, DataType::float16}) {
        key.type = type;
        const Status proof = prove(key, tiny_limits());
        ASSERT_TRUE(proof.ok()) << "p " << ranks << ": " << proof.message();
      }
    }
  }
}

TEST(Forest, ProvesWideReductionsOfRealSegments) {
  std::mt19937 random(3);
  for (const int32_t ranks : {3, 4, 8}) {
    for (const Algorithm algorithm : kForests) {
      PlanKey key = key_of(algorithm, ranks, 5 << 20);
      key.type = DataType::float16;
      key.view = random_view(static_cast<size_t>(ranks), random);
      const Status proof = prove(key, kPlanLimits);
      ASSERT_TRUE(proof.ok()) << "p " << ranks << ": " << proof.message();
    }
  }
}

// A view also changes the order of rings and chains.
TEST(Forest, ProvesEveryCollectiveForRandomViews) {
  std::mt19937 random(5);
  for (int32_t ranks = 2; ranks <= 12; ++ranks) {
    for (const int32_t each : {1, 3}) {
      std::vector<uint32_t> host_of;
      for (int32_t rank = 0; rank < ranks; ++rank) {
        host_of.push_back(static_cast<uint32_t>(rank / each));
      }
      for (const Collective collective :
           {Collective::all_reduce, Collective::broadcast, Collective::reduce,
            Collective::all_gather, Collective::reduce_scatter, Collective::gather,
            Collective::scatter, Collective::all_to_all, Collective::barrier}) {
        for (const Algorithm algorithm :
             {Algorithm::automatic, Algorithm::ring, Algorithm::hierarchical}) {
          PlanKey key = key_of(algorithm, ranks, collective == Collective::barrier ? 0 : 67);
          key.collective = collective;
          key.root = Rank(ranks / 2);
          key.hosts = HostGroups(host_of);
          key.view = random_view(host_count(key), random);
          const Status proof = prove(key, tiny_limits());
          ASSERT_TRUE(proof.ok()) << "p " << ranks << " collective " << static_cast<int>(collective)
                                  << ": " << proof.message();
        }
      }
    }
  }
}

// Returns the time of the busiest NIC, relative to the floor, when every host sends and receives
// all the time.
double load_over_floor(const PlanKey& key) {
  const TotalRates rates = total_rates(key);
  double busiest = 0;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    double sent = 0;
    double received = 0;
    for (const Step& step : make_plan(key, Rank(rank)).steps) {
      if (step.kind == StepKind::send) sent += static_cast<double>(step.source.count);
      if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
        received += static_cast<double>(step.target.count);
      }
    }
    const auto host = static_cast<size_t>(rank);
    busiest = std::max({busiest, sent / static_cast<double>(rates.send[host]),
                        received / static_cast<double>(rates.receive[host])});
  }
  const double nic_bytes = static_cast<double>(size_of(key.type) * kWholeNic);
  return busiest / floor_seconds(key, {.nic_bytes_per_second = nic_bytes});
}

TEST(Forest, NestedRingsLoadEachHostAsTheFloorDoes) {
  std::mt19937 random(4);
  for (const int32_t ranks : {3, 4, 5, 8, 16, 33, 64}) {
    const auto p = static_cast<size_t>(ranks);
    for (int trial = 0; trial < 4; ++trial) {
      PlanKey key = key_of(Algorithm::nested, ranks, 16 << 20);
      key.view = random_view(p, random, false);
      EXPECT_LT(load_over_floor(key), 1.01) << "p " << p;
    }
    for (const uint32_t permille : {250, 500, 750, 875}) {
      std::vector<uint32_t> rates(p, 1000);
      rates[p / 2] = permille;
      PlanKey key = key_of(Algorithm::nested, ranks, 16 << 20);
      key.view = view_of(rates);
      EXPECT_LT(load_over_floor(key), 1.01) << "p " << p << " rate " << permille;
    }
  }
}

// A host that is slow in one direction has less to do in that one alone.
TEST(Forest, DirectLoadsEachDirectionAsTheFloorDoes) {
  std::mt19937 random(8);
  for (const int32_t ranks : {2, 3, 4, 5, 8, 16, 33, 64}) {
    for (int trial = 0; trial < 4; ++trial) {
      PlanKey key = key_of(Algorithm::direct, ranks, 16 << 20);
      key.view = random_view(static_cast<size_t>(ranks), random);
      EXPECT_LT(load_over_floor(key), 1.01) << "p " << ranks;
    }
  }
}

// Otherwise all chunks of a slow host would be on their way at once, and each would take as long as
// all together.
TEST(Forest, ASlowHostSendsAChunkWhenAnEarlierOneHasComeBack) {
  PlanKey key = key_of(Algorithm::leaf, 8, 16 << 20);
  key.view = view_of({500, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
  size_t sends = 0;
  size_t at_once = 0;
  for (const Step& step : make_plan(key, Rank(0)).steps) {
    if (step.kind != StepKind::send) continue;
    ++sends;
    if (step.after.empty()) ++at_once;
  }
  // A round has a chunk for each of the seven others; three rounds rise and three come down.
  EXPECT_EQ(at_once, 7u * 8);
  EXPECT_GT(sends, 10 * at_once);
}

// Otherwise NICs of fast hosts idle while all their messages wait in the queues of others.
TEST(Forest, AnExchangeOfFastHostsHasMoreRoundsOnTheirWay) {
  const auto rounds = [](uint64_t kib_ps, uint64_t bytes, int32_t hosts) {
    PlanKey key = key_of(Algorithm::direct, hosts, bytes / sizeof(float));
    key.costs.network.leader_kib_ps = kib_ps;
    const ForestPlan plan(key.view, static_cast<size_t>(hosts), 0, key.algorithm, key.count,
                          DataType::float32, forest_limits(key, kPlanLimits));
    return plan.forest().rounds_rising;
  };
  constexpr uint64_t kVector = 32 << 20;  // 128 rounds of 256 KB
  EXPECT_EQ(rounds(8'192'000, kVector, 8), 3u) << "1 Gbit/s a host: 375 KB in 3 ms";
  EXPECT_EQ(rounds(2'048'000, kVector, 8), 5u) << "4 Gbit/s: 1.5 MB";
  EXPECT_EQ(rounds(1'024'000, kVector, 8), 8u) << "8 Gbit/s: 3 MB, but at most 1/16 of all rounds";
  EXPECT_EQ(rounds(1'024'000, kVector / 32, 8), 3u);
  EXPECT_EQ(rounds(204'800, 32 * kVector, 8), 7u) << "40 Gbit/s: 15 MB in rounds of 2 MB";
  EXPECT_EQ(rounds(20'480, 32 * kVector, 16), 6u) << "at most 96 messages";
  EXPECT_EQ(rounds(20'480, 32 * kVector, 64), 3u);
  EXPECT_EQ(rounds(0, 32 * kVector, 2), 48u);
}

TEST(Forest, SharesOfManyHostsAndOfAbsurdRatesAddUp) {
  std::map<size_t, uint64_t> predictions;  // by number of hosts, at ordinary rates
  for (const uint32_t most : {kWholeNic, kNicRateMax}) {
    for (const size_t hosts : {256, 1024, 4096}) {
      std::vector<HostRates> rates(hosts, HostRates(64, NicRate{most, most}));
      rates[1].resize(8);
      PlanKey key = key_of(Algorithm::nested, static_cast<int32_t>(hosts), 1 << 28);
      key.view = View::of(rates).value();
      for (const Algorithm algorithm : {Algorithm::nested, Algorithm::direct}) {
        const ForestShares shares = forest_shares(total_rates(key), algorithm);
        uint64_t sum = 0;
        for (const PathShare& path : shares.paths) sum += path.share * kShareWeight;
        for (const StarShare& star : shares.stars) sum += star.share;
        for (const PathShare& path : shares.paths) {
          EXPECT_EQ(path.leaves, 1u);
          EXPECT_GT(path.share, 1000u);
        }
        EXPECT_NEAR(static_cast<double>(sum) / (1024 * kShareWeight), 1, 2e-3) << hosts << " hosts";
      }
      // The ring moves twice the vector through the slow host, and nested paths once. Only the
      // ratios of rates count.
      const uint64_t predicted = predicted_ns(key, Algorithm::nested);
      EXPECT_LT(predicted * 3, predicted_ns(key, Algorithm::ring) * 2);
      const auto first = predictions.try_emplace(hosts, predicted).first->second;
      EXPECT_NEAR(static_cast<double>(predicted) / static_cast<double>(first), 1, 0.01);
    }
  }
}

}  // namespace
}  // namespace r2ccl
