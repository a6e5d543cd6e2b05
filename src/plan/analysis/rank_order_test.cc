// Reductions in rank order: proofs of their plans, the checker's rule, and the shares of owners.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/limits.h"
#include "plan/algorithms.h"
#include "plan/analysis/checker.h"
#include "plan/plan.h"
#include "plan/text/plan_text.h"
#include "testing/tiny_plans.h"

namespace r2ccl::rank_order {
namespace {

// Few slots, and room for few messages of a segment, so that pieces overlap and slots have many
// uses.
PlanLimits limits_of(uint64_t slots, uint64_t messages) {
  PlanLimits limits = tiny_limits();
  limits.spare_scratch_bytes = slots * limits.segment_bytes_max;
  limits.messages_per_segment = messages;
  limits.wide_bytes = 4 * 12 * sizeof(float);
  return limits;
}

PlanKey key_of(Collective collective, DataType type, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.collective = collective;
  key.type = type;
  key.rank_count = ranks;
  key.root = Rank(ranks / 3);
  key.count = count;
  key.reproducible = true;
  return key;
}

HostGroups hosts_of(int32_t ranks, const std::function<int32_t(int32_t)>& host_of) {
  std::vector<uint32_t> hosts;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    hosts.push_back(static_cast<uint32_t>(host_of(rank)));
  }
  return HostGroups(hosts);
}

// Returns a view in which some hosts have lost NICs, or one direction of them.
View uneven_view(size_t hosts, uint64_t seed) {
  std::vector<HostRates> all(hosts, HostRates(4));
  for (size_t host = 0; host < hosts; ++host) {
    for (size_t nic = 0; nic < 3; ++nic) {
      const uint64_t draw = hash_of({seed, host, nic}) % 4;
      if (draw == 0) all[host][nic] = {0, 0};
      if (draw == 1) all[host][nic].receive = 250;
    }
  }
  Result<View> view = View::of(std::move(all));
  EXPECT_TRUE(view.ok());
  return view.value();
}

WholePlan build(PlanKey key, const PlanLimits& limits, int32_t every = 0) {
  WholePlan whole;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    key.in_place = every > 0 && rank % every == 0 &&
                   (key.collective != Collective::reduce || key.root == Rank(rank));
    whole.keys.push_back(key);
    whole.plans.push_back(make_plan(key, Rank(rank), limits));
  }
  return whole;
}

void expect_proved(const PlanKey& key, const PlanLimits& limits) {
  for (const int32_t every : {0, 1, 3}) {  // no rank in place, all, each third
    const WholePlan whole = build(key, limits, every);
    const Status status = check_plan(whole.keys, whole.plans);
    ASSERT_TRUE(status.ok()) << "collective " << static_cast<int>(key.collective) << " of "
                             << to_string(key.type) << " p " << key.rank_count << " count "
                             << key.count << " in place " << every << ": " << status.message();
    for (const RankPlan& plan : whole.plans) {
      const uint64_t least = limits.segment_bytes_max;
      ASSERT_LE(plan.scratch * size_of(key.type), std::max(limits.spare_scratch_bytes, least));
      ASSERT_LE(plan.wide * sizeof(float), limits.wide_bytes);
    }
  }
}

const std::vector<Collective> kReductions{Collective::all_reduce, Collective::reduce,
                                          Collective::reduce_scatter};
const std::vector<DataType> kTypes{DataType::float32, DataType::bfloat16};

void expect_all_proved(int32_t ranks, uint64_t count, const PlanLimits& limits) {
  for (const Collective collective : kReductions) {
    for (const DataType type : kTypes) {
      expect_proved(key_of(collective, type, ranks, count), limits);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(RankOrder, IsProvedUpTo17Ranks) {
  for (int32_t ranks = 2; ranks <= 17; ++ranks) {
    for (const uint64_t count : {1u, 150u}) {
      for (const uint64_t slots : {1u, 7u}) {
        for (const uint64_t messages : {1u, 32u}) {
          expect_all_proved(ranks, count, limits_of(slots, messages));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(RankOrder, IsProvedWithManyRanks) {
  expect_all_proved(33, 300, limits_of(4, 8));
  expect_all_proved(70, 3, limits_of(4, 8));
}

TEST(RankOrder, IsProvedWithRealSegments) {
  for (const int32_t ranks : {2, 4, 7}) {
    for (const uint64_t count : {100u, 5'000u, 3'000'000u}) {
      expect_all_proved(ranks, count, kPlanLimits);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RankOrder, IsProvedWithEveryViewOfSharedHosts) {
  for (const int32_t ranks : {3, 8, 13}) {
    const std::vector<HostGroups> layouts{hosts_of(ranks, [](int32_t rank) { return rank; }),
                                          hosts_of(ranks, [](int32_t rank) { return rank / 2; }),
                                          hosts_of(ranks, [](int32_t rank) { return rank % 3; })};
    for (const HostGroups& hosts : layouts) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        for (const Collective collective : kReductions) {
          PlanKey key = key_of(collective, kTypes[seed % 2], ranks, 300);
          key.hosts = hosts;
          const size_t count = hosts.empty() ? static_cast<size_t>(ranks) : hosts.hosts().size();
          key.view = uneven_view(count, seed);
          expect_proved(key, limits_of(3, 4));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(RankOrder, IsProvedWithUnequalBlocks) {
  for (int32_t ranks = 2; ranks <= 9; ++ranks) {
    for (const DataType type : kTypes) {
      PlanKey key = key_of(Collective::reduce_scatter, type, ranks, 0);
      for (int32_t rank = 0; rank < ranks; ++rank) {
        key.blocks.counts.push_back(static_cast<uint64_t>(rank * 7 % 5 * 20));
      }
      expect_proved(key, limits_of(2, 4));
      if (HasFatalFailure()) return;
    }
  }
}

// --- the checker's rule -------------------------------------------------------------------------

void expect_refused(const WholePlan& whole, const std::string& why) {
  const Status status = check_plan(whole.keys, whole.plans);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

TEST(RankOrder, IsDemandedOfEveryAlgorithm) {
  for (const Collective collective : kReductions) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
      PlanKey key = key_of(collective, DataType::float32, 4, 100);
      key.algorithm = algorithm;
      key.reproducible = false;
      WholePlan whole = build(key, tiny_limits());
      ASSERT_TRUE(check_plan(whole.keys, whole.plans).ok());
      for (PlanKey& each : whole.keys) each.reproducible = true;
      expect_refused(whole, "not reduced in rank order");
    }
  }
}

TEST(RankOrder, IsDemandedOfEachAddition) {
  const PlanKey key = key_of(Collective::reduce_scatter, DataType::float32, 5, 4);
  const WholePlan good = build(key, tiny_limits());
  int changed = 0;
  for (size_t rank = 0; rank < good.plans.size(); ++rank) {
    for (size_t i = 0; i < good.plans[rank].steps.size(); ++i) {
      const StepKind kind = good.plans[rank].steps[i].kind;
      if (kind != StepKind::reduce && kind != StepKind::receive_reduce) continue;
      WholePlan bad = good;
      Operands& operands = bad.plans[rank].steps[i].operands;
      operands = operands == Operands::own_first ? Operands::received_first : Operands::own_first;
      expect_refused(bad, "not reduced in rank order");
      ++changed;
    }
  }
  EXPECT_EQ(changed, 5 * 4);
}

// Two ranks change their places in the sum at one owner.
TEST(RankOrder, IsDemandedOfTheOrderOfReceives) {
  WholePlan bad = build(key_of(Collective::reduce_scatter, DataType::float32, 5, 4), tiny_limits());
  std::vector<Step*> taken;
  for (Step& step : bad.plans[0].steps) {
    if (step.kind == StepKind::receive_reduce) taken.push_back(&step);
  }
  ASSERT_EQ(taken.size(), 4u);
  std::swap(taken[1]->peer, taken[2]->peer);
  expect_refused(bad, "not reduced in rank order");
}

// Without wide memory each addition rounds; the owner sends nothing in between.
TEST(RankOrder, RoundsHalvesOnlyOnce) {
  const PlanKey key = key_of(Collective::all_reduce, DataType::float32, 4, 3);
  WholePlan bad = build(key, tiny_limits());
  for (PlanKey& each : bad.keys) each.type = DataType::bfloat16;
  expect_refused(bad, "adds to what it rounded and did not send");
}

// The ranks add in the right order, but each rounds before it sends.
TEST(RankOrder, IsOfAChainThatDoesNotRound) {
  const std::string text =
      "op sum ranks 3 root 2 count 4 reproducible\n"
      "rank 0 steps 1 scratch 0\n"
      "0 send peer 1 source input:0+4\n"
      "rank 1 steps 2 scratch 4\n"
      "0 receive_reduce peer 0 source input:0+4 target scratch:0+4 operands received_first\n"
      "1 send peer 2 source scratch:0+4 after 0\n"
      "rank 2 steps 1 scratch 0\n"
      "0 receive_reduce peer 1 source input:0+4 target output:0+4 operands received_first "
      "last_reduction\n";
  const std::string head = "r2ccl-plan 1 collective reduce algorithm ring type ";
  const Result<WholePlan> exact = parse_plan(head + "float32 " + text);
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  const Status proof = check_plan(exact.value().keys, exact.value().plans);
  EXPECT_TRUE(proof.ok()) << proof.message();
  const Result<WholePlan> rounded = parse_plan(head + "bfloat16 " + text);
  ASSERT_TRUE(rounded.ok()) << rounded.status().message();
  expect_refused(rounded.value(), "not reduced in rank order");
}

TEST(RankOrder, IsNotDemandedOfIntegersAndCopies) {
  PlanKey key = key_of(Collective::all_reduce, DataType::int32, 4, 100);
  key.algorithm = Algorithm::ring;
  PlanKey other = key;
  other.reproducible = false;
  EXPECT_EQ(make_plan(key, Rank(1)), make_plan(other, Rank(1)));
  key.type = other.type = DataType::float32;
  EXPECT_NE(make_plan(key, Rank(1)), make_plan(other, Rank(1)));
  key.collective = other.collective = Collective::all_gather;
  EXPECT_EQ(make_plan(key, Rank(1)), make_plan(other, Rank(1)));
}

TEST(RankOrder, ComesBackFromText) {
  for (const DataType type : kTypes) {
    PlanKey key = key_of(Collective::all_reduce, type, 4, 100);
    key.hosts = hosts_of(4, [](int32_t rank) { return rank / 2; });
    const WholePlan whole = build(key, tiny_limits());
    const Result<WholePlan> read = parse_plan(print_plan(whole));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read.value(), whole);
  }
}

// --- the steps ----------------------------------------------------------------------------------

TEST(RankOrder, SendsToTheNextRankFirst) {
  const WholePlan whole =
      build(key_of(Collective::reduce_scatter, DataType::float32, 6, 4), tiny_limits());
  for (int32_t rank = 0; rank < 6; ++rank) {
    int32_t next = rank + 1;
    for (const Step& step : whole.plans[static_cast<size_t>(rank)].steps) {
      if (step.kind != StepKind::send) continue;
      EXPECT_EQ(step.peer, Rank(next++ % 6));
    }
    EXPECT_EQ(next, rank + 6);
  }
}

TEST(RankOrder, TakesPiecesOfManyRanksSideBySide) {
  const PlanLimits limits = limits_of(8, 4);
  const RankPlan plan =
      make_plan(key_of(Collective::reduce_scatter, DataType::float32, 16, 60), Rank(5), limits);
  std::vector<int32_t> order;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
      order.push_back(step.peer.value());
    }
  }
  // The next piece begins when 4 messages of the first have been taken.
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 8), (std::vector{0, 1, 2, 3, 4, 0, 1, 6}));
  EXPECT_EQ(plan.scratch, 8 * limits.segment_bytes_max / sizeof(float));
}

// An AllReduce of equal ranks moves as little as a ring.
TEST(RankOrder, MovesAsLittleAsARing) {
  for (const int32_t ranks : {2, 5, 8}) {
    const auto p = static_cast<uint64_t>(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      uint64_t sent = 0;
      const PlanKey key = key_of(Collective::all_reduce, DataType::float32, ranks, 10'000 * p);
      for (const Step& step : make_plan(key, Rank(rank)).steps) {
        if (step.kind == StepKind::send) sent += step.source.count;
      }
      EXPECT_EQ(sent, 2 * (p - 1) * 10'000);
    }
  }
}

TEST(RankOrder, HasOneHopForFewElements) {
  const PlanKey key = key_of(Collective::all_reduce, DataType::float32, 4, 16);
  const RankPlan plan = make_plan(key, Rank(2));
  EXPECT_EQ(std::ranges::count(plan.steps, StepKind::send, &Step::kind), 3);
}

// --- the shares of owners -----------------------------------------------------------------------

std::vector<uint64_t> shares_of(const PlanKey& key) {
  std::vector<uint64_t> shares;
  uint64_t next = 0;
  for (const Range& range : owned_ranges(key, kPlanLimits)) {
    EXPECT_EQ(range.begin, next);
    next += range.count;
    shares.push_back(range.count);
  }
  EXPECT_EQ(next, key.count);
  return shares;
}

// Returns the time of each host's NICs, in elements for a NIC.
std::vector<double> times_of(const PlanKey& key) {
  const std::vector<uint64_t> shares = shares_of(key);
  const double p = key.rank_count;
  std::vector<double> times;
  for (size_t host = 0; host < key.view.hosts().size(); ++host) {
    double bandwidth = 0;
    for (const NicRate& nic : key.view.hosts()[host]) bandwidth += std::min(nic.send, nic.receive);
    double share = 0;
    double m = 1;
    if (key.hosts.empty()) {
      share = static_cast<double>(shares[host]);
    } else {
      m = static_cast<double>(key.hosts.hosts()[host].size());
      for (const Rank rank : key.hosts.hosts()[host]) {
        share += static_cast<double>(shares[static_cast<size_t>(rank.value())]);
      }
    }
    times.push_back((m * static_cast<double>(key.count) + (p - 2 * m) * share) / bandwidth);
  }
  return times;
}

View view_of(const std::vector<uint32_t>& thousandths) {
  std::vector<HostRates> hosts;
  for (const uint32_t rate : thousandths) hosts.push_back({{rate, rate}});
  return View::of(hosts).value();
}

TEST(Owners, OfEqualHostsHaveEqualShares) {
  EXPECT_EQ(shares_of(key_of(Collective::all_reduce, DataType::float32, 4, 100'003)),
            (std::vector<uint64_t>{25'000, 25'001, 25'001, 25'001}));
}

TEST(Owners, EndTheExchangeOfAllHostsAtTheSameTime) {
  PlanKey key = key_of(Collective::all_reduce, DataType::float32, 6, 10'000'000);
  key.view = view_of({1000, 800, 1000, 900, 1000, 1000});
  std::vector<double> times = times_of(key);
  EXPECT_LT(*std::ranges::max_element(times), *std::ranges::min_element(times) * 1.001);
  // Two ranks on each of five hosts.
  key = key_of(Collective::all_reduce, DataType::float32, 10, 10'000'000);
  key.hosts = hosts_of(10, [](int32_t rank) { return rank / 2; });
  key.view = view_of({1000, 800, 1000, 900, 1000});
  times = times_of(key);
  EXPECT_LT(*std::ranges::max_element(times), *std::ranges::min_element(times) * 1.001);
}

TEST(Owners, OnASlowHostHaveNothing) {
  PlanKey key = key_of(Collective::all_reduce, DataType::float32, 4, 1'000'000);
  key.view = view_of({1000, 1000, 250, 1000});
  const std::vector<uint64_t> shares = shares_of(key);
  EXPECT_EQ(shares[2], 0u);
  EXPECT_NEAR(static_cast<double>(shares[0]), 333'333, 2);
}

TEST(Owners, OfExtremeViewsStillHaveEveryElement) {
  for (const uint32_t slow : {1u, 20u, kNicRateMax}) {
    PlanKey key = key_of(Collective::all_reduce, DataType::float32, 4, uint64_t{1} << 39);
    key.view = view_of({slow, kNicRateMax, 1, 1000});
    shares_of(key);
    key.rank_count = 2;
    key.view = view_of({slow, 1000});
    shares_of(key);
    key.rank_count = 7;
    key.hosts = hosts_of(7, [](int32_t rank) { return rank < 5 ? 0 : 1; });
    shares_of(key);
  }
}

TEST(Owners, OfFewElementsAreAllRanksOrTheRoot) {
  PlanKey key = key_of(Collective::all_reduce, DataType::float32, 4, 100);
  for (const Range& range : owned_ranges(key, kPlanLimits)) EXPECT_EQ(range, (Range{0, 100}));
  key.collective = Collective::reduce;
  const std::vector<Range> ranges = owned_ranges(key, kPlanLimits);
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(ranges[rank].count, rank == 1 ? 100u : 0u);
}

}  // namespace
}  // namespace r2ccl::rank_order
