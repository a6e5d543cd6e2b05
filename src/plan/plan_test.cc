#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <vector>

namespace r2ccl {
namespace {

PlanKey all_reduce(Algorithm algorithm, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.algorithm = algorithm;
  key.rank_count = ranks;
  key.count = count;
  return key;
}

// Returns host groups of `each` neighbouring ranks.
HostGroups neighbours(int32_t ranks, int32_t each) {
  std::vector<uint32_t> host_of;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    host_of.push_back(static_cast<uint32_t>(rank / each));
  }
  return HostGroups(host_of);
}

uint64_t count_of(const RankPlan& plan, StepKind kind) {
  return static_cast<uint64_t>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                             [&](const Step& step) { return step.kind == kind; }));
}

uint64_t elements_sent(const RankPlan& plan) {
  uint64_t elements = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::send) elements += step.source.count;
  }
  return elements;
}

TEST(PlanHash, DiffersInEverythingThatRanksMustAgreeOn) {
  const PlanKey key = all_reduce(Algorithm::ring, 4, 100);
  std::vector<PlanKey> others(11, key);
  others[0].collective = Collective::broadcast;
  others[1].algorithm = Algorithm::halving_doubling;
  others[2].type = DataType::int32;
  others[3].op = ReduceOp::max;
  others[4].rank_count = 5;
  others[5].root = Rank(1);
  others[6].count = 101;
  others[7].hosts = neighbours(4, 2);
  others[8].hosts = neighbours(4, 4);
  others[9].reproducible = true;
  others[10].view = View::of({{{500, 500}}, {{}}, {{}}, {{}}}).value();
  for (const PlanKey& other : others) EXPECT_NE(plan_hash(other), plan_hash(key));
}

TEST(PlanHash, DoesNotDependOnThePlaceOfTheInputOrTheChooserOfTheAlgorithm) {
  PlanKey key = all_reduce(Algorithm::automatic, 4, 100);
  const uint64_t hash = plan_hash(key);
  key.in_place = true;
  EXPECT_EQ(plan_hash(key), hash);
  key.algorithm = choose_algorithm(key);
  EXPECT_EQ(plan_hash(key), hash);
}

// Each rank sends 2 (p - 1) of p equal blocks.
TEST(Ring, MovesAsLittleAsThereCanBe) {
  for (int32_t ranks = 2; ranks <= 16; ++ranks) {
    const auto p = static_cast<uint64_t>(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const RankPlan plan = make_plan(all_reduce(Algorithm::ring, ranks, 1000 * p), Rank(rank));
      EXPECT_EQ(elements_sent(plan), 2 * (p - 1) * 1000);
    }
  }
}

// 2 (q - 1) / q of the vector for a power of two.
TEST(HalvingDoubling, MovesAsLittleAsTheRing) {
  for (const int32_t ranks : {2, 4, 8, 16}) {
    const auto p = static_cast<uint64_t>(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const RankPlan plan =
          make_plan(all_reduce(Algorithm::halving_doubling, ranks, 16 * p), Rank(rank));
      EXPECT_EQ(elements_sent(plan), 2 * (p - 1) * 16);
    }
  }
}

// One message each way in each of log2 p rounds.
TEST(RecursiveDoubling, SendsOneMessageARound) {
  for (const int32_t ranks : {2, 4, 8, 16}) {
    const auto rounds = static_cast<uint64_t>(std::bit_width(static_cast<uint32_t>(ranks)) - 1);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const RankPlan plan =
          make_plan(all_reduce(Algorithm::recursive_doubling, ranks, 256), Rank(rank));
      EXPECT_EQ(count_of(plan, StepKind::send), rounds);
      EXPECT_EQ(count_of(plan, StepKind::receive_reduce), rounds);
      EXPECT_EQ(plan.steps.size(), 2 * rounds);
    }
  }
}

// The arithmetic in ring.cc: at 1 MB with 4 ranks the pipeline must be 2 segments deep, and a send
// must not need the segment that has just arrived.
TEST(Ring, SendsNothingThatItHasOnlyJustReceived) {
  const RankPlan plan =
      make_plan(all_reduce(Algorithm::ring, 4, (1 << 20) / sizeof(float)), Rank(0));
  EXPECT_EQ(count_of(plan, StepKind::send), 6u * 2u);
  std::vector<uint32_t> receive_number(plan.steps.size());
  uint32_t sends = 0, receives = 0;
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.kind != StepKind::send) {
      receive_number[i] = receives++;
      continue;
    }
    // When send number n starts in a full pipeline, receives 0 to n - 1 are complete at best.
    for (const uint32_t before : step.after) EXPECT_LE(receive_number[before] + 1, sends - 1);
    ++sends;
  }
}

TEST(HostGroups, AreEqualWhenTheSameRanksShareHosts) {
  const std::vector<uint32_t> some{7, 3, 7, 9};
  const std::vector<uint32_t> same{0, 1, 0, 2};
  const std::vector<uint32_t> other{0, 1, 1, 2};
  EXPECT_EQ(HostGroups(some), HostGroups(same));
  EXPECT_EQ(HostGroups(some).hash(), HostGroups(same).hash());
  EXPECT_FALSE(HostGroups(some) == HostGroups(other));
  EXPECT_NE(HostGroups(some).hash(), HostGroups(other).hash());
  const std::vector<std::vector<Rank>> expected{{Rank(0), Rank(2)}, {Rank(1)}, {Rank(3)}};
  EXPECT_EQ(HostGroups(some).hosts(), expected);
}

TEST(HostGroups, AreNoneWhenEachRankHasItsOwnHost) {
  const std::vector<uint32_t> own{4, 2, 1};
  EXPECT_TRUE(HostGroups(own).empty());
  EXPECT_EQ(HostGroups(own), HostGroups());
}

// Returns the elements that pass from one host to another.
uint64_t elements_between_hosts(const PlanKey& key) {
  uint64_t elements = 0;
  for (const std::vector<Rank>& host : key.hosts.hosts()) {
    for (const Rank rank : host) {
      for (const Step& step : make_plan(key, rank).steps) {
        if (step.kind != StepKind::send) continue;
        if (std::ranges::find(host, step.peer) == host.end()) elements += step.source.count;
      }
    }
  }
  return elements;
}

// 2 (H - 1) / H of the vector by each of H hosts.
TEST(Hierarchy, MovesAsLittleBetweenHostsAsThereCanBe) {
  for (const int32_t hosts : {2, 3, 4}) {
    for (const int32_t each : {2, 4}) {
      PlanKey key = all_reduce(Algorithm::automatic, hosts * each, 1 << 22);
      key.hosts = neighbours(hosts * each, each);
      EXPECT_EQ(elements_between_hosts(key), 2 * (static_cast<uint64_t>(hosts) - 1) * key.count)
          << hosts << " x " << each;
    }
  }
}

TEST(Hierarchy, SendsFewMessagesForFewBytes) {
  PlanKey key = all_reduce(Algorithm::automatic, 8, 100);
  key.hosts = neighbours(8, 4);
  uint64_t messages = 0;
  for (int32_t rank = 0; rank < 8; ++rank) {
    messages += count_of(make_plan(key, Rank(rank)), StepKind::send);
  }
  EXPECT_EQ(messages, 2u * (3 + 3) + 2u);  // to the leaders and back, and between the leaders
}

TEST(Broadcast, EntersEachHostOnce) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
    PlanKey key = all_reduce(algorithm, 12, 1 << 20);
    key.collective = Collective::broadcast;
    key.root = Rank(6);  // in the middle of a host
    key.hosts = neighbours(12, 4);
    EXPECT_EQ(elements_between_hosts(key), 2 * key.count);
  }
}

TEST(MakePlan, LeavesOutMessagesWithoutElements) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
    EXPECT_TRUE(make_plan(all_reduce(algorithm, 5, 0), Rank(0)).steps.empty());
    for (int32_t rank = 0; rank < 8; ++rank) {
      for (const Step& step : make_plan(all_reduce(algorithm, 8, 3), Rank(rank)).steps) {
        EXPECT_GT(step.source.count + step.target.count, 0u);
      }
    }
  }
}

TEST(MakePlan, CopiesOnASingleRankOnlyWhenThatIsNeeded) {
  PlanKey key = all_reduce(Algorithm::automatic, 1, 10);
  EXPECT_EQ(count_of(make_plan(key, Rank(0)), StepKind::copy), 1u);
  key.in_place = true;
  EXPECT_TRUE(make_plan(key, Rank(0)).steps.empty());
}

TEST(MakePlan, StaysSmallForManyRanksAndManyBytes) {
  constexpr uint64_t kCount = (64 << 20) / sizeof(float);
  EXPECT_LT(make_plan(all_reduce(Algorithm::ring, 16, kCount), Rank(3)).steps.size(), 1000u);
  EXPECT_LT(make_plan(all_reduce(Algorithm::ring, 1024, kCount), Rank(3)).steps.size(), 20000u);
}

TEST(MakePlan, CutsSegmentsThatFitAStagingSlot) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
    for (int32_t rank = 0; rank < 5; ++rank) {
      for (const Step& step : make_plan(all_reduce(algorithm, 5, 1 << 22), Rank(rank)).steps) {
        EXPECT_LE(step.target.count * sizeof(float), kPlanLimits.segment_bytes_max);
      }
    }
  }
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// The goal is 0.1 s without sanitizers. A rank makes its own part alone, so the time must not grow
// with the square of the number of ranks, which would be a hundred times as much.
TEST(MakePlan, MakesOneRanksPartFor1024HostsQuickly) {
  PlanKey key;
  key.rank_count = 1024;
  key.count = uint64_t{1} << 28;
  std::vector<HostRates> rates(1024, HostRates(8));
  rates[5].resize(7);
  rates[77].resize(4);
  key.view = View::of(rates).value();
  for (const Algorithm each : {Algorithm::automatic, Algorithm::ring, Algorithm::direct,
                               Algorithm::nested, Algorithm::leaf}) {
    key.algorithm = each;
    const double begin = processor_seconds();
    EXPECT_GT(make_plan(key, Rank(17)).steps.size(), 1024U);
    EXPECT_LT(processor_seconds() - begin, 5.0) << static_cast<int>(each);
  }
}

}  // namespace
}  // namespace r2ccl
