// The times of plans on an ideal fabric (plan/analysis/plan_timing.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/analysis/plan_timing.h"
#include "plan/cost_model.h"
#include "plan/plan.h"

namespace r2ccl {
namespace {

struct Fabric {
  double bytes_per_s = 120e6;
  double latency_s = 0.3e-3;
  double memory_bytes_per_s = 2e9;
  double memory_latency_s = 20e-6;
};

// Returns the costs that the ranks of a job measure on the fabric. All ranks of a host share its
// wire to the other hosts.
PlanCosts costs_of(const Fabric& fabric, const HostGroups& hosts) {
  const auto in_ns = [](double seconds) { return static_cast<uint64_t>(seconds * 1e9); };
  const auto domain = [&](double latency_s, double bytes_per_s, uint64_t sharers) {
    const uint64_t hop = in_ns(latency_s);
    const uint64_t kib = in_ns(1000 * 1024 / bytes_per_s);
    return DomainCosts{.hop_ns = hop,
                       .message_ns = 0,
                       .kib_ps = sharers * kib,
                       .fan_kib_ps = sharers * kib,
                       .leader_hop_ns = hop,
                       .leader_message_ns = 0,
                       .leader_kib_ps = kib};
  };
  return {.memory = domain(fabric.memory_latency_s, fabric.memory_bytes_per_s, 1),
          .network = domain(fabric.latency_s, fabric.bytes_per_s, hosts.largest())};
}

// Returns the seconds until every rank is done.
double time_of(PlanKey key, const Fabric& fabric) {
  key.costs = costs_of(fabric, key.hosts);
  std::vector<RankPlan> plans;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) plans.push_back(make_plan(key, Rank(rank)));
  return plan_times(key, plans).end_ns / 1e9;
}

PlanKey in_place(Collective collective, int32_t ranks, uint64_t bytes) {
  PlanKey key;
  key.collective = collective;
  key.rank_count = ranks;
  key.count = bytes / sizeof(float);
  key.in_place = true;
  return key;
}

// Returns the time of the line alone: 2 (p - 1) / p of the vector through each rank.
double line_time(const PlanKey& key, const Fabric& fabric) {
  const double p = key.rank_count;
  const auto bytes = static_cast<double>(key.count * size_of(key.type));
  return 2 * (p - 1) / p * bytes / fabric.bytes_per_s;
}

// ring.cc: 2 (p - 1) T and once the latency; one more for the last acknowledgement.
TEST(PlanTime, TheRingHidesTheLatencyOfAllHopsButTheLast) {
  const Fabric fabric;
  for (const int32_t ranks : {2, 4, 8, 16}) {
    for (const uint64_t bytes_per_rank : {128 << 10, 256 << 10, 1 << 20, 4 << 20}) {
      const PlanKey key =
          in_place(Collective::all_reduce, ranks, bytes_per_rank * static_cast<uint64_t>(ranks));
      const double expected = line_time(key, fabric) + 2 * fabric.latency_s;
      EXPECT_NEAR(time_of(key, fabric), expected, 1e-3 * expected)
          << ranks << " ranks, " << bytes_per_rank << " bytes a rank";
    }
  }
}

TEST(PlanTime, FourRanksReachTheRequiredShareOfTheLine) {
  const Fabric fabric;
  const auto share = [&](uint64_t bytes) {
    const PlanKey key = in_place(Collective::all_reduce, 4, bytes);
    return line_time(key, fabric) / time_of(key, fabric);
  };
  EXPECT_GT(share(1 << 20), 0.95);
  EXPECT_GT(share(16 << 20), 0.995);
  EXPECT_GT(share(64 << 20), 0.998);
}

// 2 log2 p latencies.
TEST(PlanTime, HalvingDoublingPaysTheLatencyTwiceLogPTimes) {
  const Fabric fabric;
  PlanKey key = in_place(Collective::all_reduce, 4, 16 << 10);
  key.algorithm = Algorithm::halving_doubling;
  EXPECT_NEAR(time_of(key, fabric), line_time(key, fabric) + 4 * fabric.latency_s, 1e-5);
}

// halving_doubling.cc: T instead of 1.5 T.
TEST(PlanTime, HalvingDoublingOverlapsItsRounds) {
  const Fabric fabric;
  PlanKey key = in_place(Collective::all_reduce, 4, 128 << 10);
  key.algorithm = Algorithm::halving_doubling;
  const double vector_s = line_time(key, fabric) / 1.5;
  EXPECT_NEAR(time_of(key, fabric), vector_s + 4 * fabric.latency_s, 1e-5);
}

// Returns host groups of `each` neighbouring ranks.
HostGroups hosts_of_each(int32_t ranks, int32_t each) {
  std::vector<uint32_t> host_of;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    host_of.push_back(static_cast<uint32_t>(rank / each));
  }
  return HostGroups(host_of);
}

// Requires a key without algorithm. Expects that the chosen one takes at most `factor` of the time
// of the fastest.
void expect_near_best(PlanKey key, const Fabric& fabric, double factor) {
  key.costs = costs_of(fabric, key.hosts);
  const Algorithm chosen = choose_algorithm(key);
  std::string all;
  double least = 1e9;
  double time = 0;
  for (const Algorithm each : candidates_of(key)) {
    key.algorithm = each;
    const double run = time_of(key, fabric);
    least = std::min(least, run);
    if (each == chosen) time = run;
    all += " algorithm " + std::to_string(static_cast<int>(each)) + " " +
           std::to_string(run * 1e3) + " ms, predicted " +
           std::to_string(static_cast<double>(predicted_ns(key, each)) / 1e6) + ";";
  }
  EXPECT_LE(time, factor * least) << "collective " << static_cast<int>(key.collective) << " of "
                                  << key.count << " elements among " << key.rank_count
                                  << " ranks on " << key.hosts.hosts().size() << " hosts: chosen "
                                  << static_cast<int>(chosen) << "," << all;
}

// The model counts each message of a flat plan as one through the NICs, also between ranks of one
// host. So it takes a hierarchical plan where a flat one would be a little faster on this fabric,
// where ranks share no cores. Nor does it count that messages of several senders meet at a
// receiver: then Bruck takes up to 27 % more than the direct exchange.
TEST(PlanTime, TheChosenAlgorithmIsNearlyTheFastest) {
  for (const double latency_s : {0.05e-3, 0.3e-3}) {
    const Fabric fabric{.latency_s = latency_s};
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast,
                                        Collective::all_gather, Collective::reduce_scatter}) {
      const bool has_blocks =
          collective == Collective::all_gather || collective == Collective::reduce_scatter;
      for (int32_t ranks = 3; ranks <= 16; ++ranks) {
        for (uint64_t bytes = 1 << 10; bytes <= 4 << 20; bytes *= 4) {
          const auto p = static_cast<uint64_t>(ranks);
          PlanKey key = in_place(collective, ranks, has_blocks ? bytes / p : bytes);
          if (key.count == 0) continue;
          for (const int32_t each : {1, 2, 4, 16}) {
            key.hosts = hosts_of_each(ranks, each);
            expect_near_best(key, fabric, each == 1 ? 1.3 : 1.5);
          }
        }
      }
    }
  }
}

// hierarchy.cc: the NICs of a host carry 2 (H - 1) / H of the vector, and the work in memory delays
// them only for the first piece and the last one. Four ranks a host.
TEST(PlanTime, AHierarchyKeepsTheNicsBusy) {
  const Fabric fabric;
  const auto share = [&](uint32_t hosts, uint64_t bytes) {
    PlanKey key = in_place(Collective::all_reduce, static_cast<int32_t>(4 * hosts), bytes);
    key.hosts = hosts_of_each(key.rank_count, 4);
    const double line = 2.0 * (hosts - 1) / hosts * static_cast<double>(bytes);
    return line / fabric.bytes_per_s / time_of(key, fabric);
  };
  EXPECT_GT(share(2, 1 << 20), 0.8);
  EXPECT_GT(share(2, 16 << 20), 0.98);
  EXPECT_GT(share(4, 16 << 20), 0.98);
  EXPECT_GT(share(4, 64 << 20), 0.99);
}

// The same along a forest: the results that a host spreads in memory hold up no inputs of the
// chunks behind them, which take the same way.
TEST(PlanTime, AHierarchyKeepsTheNicsBusyBesideASlowHost) {
  const Fabric fabric;
  for (const uint16_t rate : {uint16_t{990}, uint16_t{875}, uint16_t{500}, uint16_t{250}}) {
    const NicRate slow{rate, rate};
    const NicRate whole{1000, 1000};
    const auto time = [&](int32_t each) {
      PlanKey key = in_place(Collective::all_reduce, 4 * each, 64 << 20);
      if (each > 1) key.hosts = hosts_of_each(key.rank_count, each);
      key.view = View::of({{slow}, {whole}, {whole}, {whole}}).value();
      return time_of(key, fabric);
    };
    for (const int32_t each : {2, 4}) {
      EXPECT_LT(time(each), 1.03 * time(1)) << rate << ", " << each << " ranks a host";
    }
  }
}

// broadcast.cc: the vector once, p - 2 segments of fill and p - 1 latencies (and the last
// acknowledgement).
TEST(PlanTime, TheChainBroadcastFillsInAFewSegments) {
  const Fabric fabric;
  const uint64_t bytes = 16 << 20;
  const PlanKey key = in_place(Collective::broadcast, 4, bytes);
  const double vector_s = static_cast<double>(bytes) / fabric.bytes_per_s;
  const double expected = vector_s * (1 + 2.0 / 128) + 4 * fabric.latency_s;
  EXPECT_NEAR(time_of(key, fabric), expected, 1e-3 * expected);
}

// Two ranks that each send a vector to the other one: the times of each step are those of its
// message.
TEST(PlanTime, StepsHaveTheTimesOfTheirMessages) {
  PlanKey key = in_place(Collective::all_reduce, 2, 1 << 20);
  key.algorithm = Algorithm::ring;
  key.costs.network = domain_costs({0, 0, 0, 0, 1000, 10, 8'000});
  const std::vector<RankPlan> plans{make_plan(key, Rank(0)), make_plan(key, Rank(1))};
  const PlanTimes times = plan_times(key, plans);
  for (size_t rank = 0; rank < 2; ++rank) {
    double sent = 0;  // until then the wire is busy
    for (size_t i = 0; i < plans[rank].steps.size(); ++i) {
      const Step& step = plans[rank].steps[i];
      const StepTime& time = times.steps[rank][i];
      if (step.kind == StepKind::receive) {
        EXPECT_EQ(time.moved_ns, time.start_ns + 10 + static_cast<double>(step.target.count) / 32);
        EXPECT_EQ(time.end_ns, time.moved_ns);
      }
      if (step.kind != StepKind::send) continue;
      EXPECT_GE(time.start_ns, sent);
      sent = time.start_ns + 10 + static_cast<double>(step.source.count) / 32;
      EXPECT_EQ(time.moved_ns, sent);
      EXPECT_EQ(time.end_ns, sent + 2000);
    }
  }
}

// A message between hosts takes the time of the slower end, and both ends of a slow host are slow
// where its view says so.
TEST(PlanTime, AViewSlowsItsHostsDown) {
  PlanKey key = in_place(Collective::broadcast, 2, 1 << 20);
  key.algorithm = Algorithm::ring;
  key.costs.network = domain_costs({0, 0, 0, 0, 0, 0, 1'024'000});
  const auto time = [&](NicRate first, NicRate second) {
    key.view = View::of({{first}, {second}}).value();
    const std::vector<RankPlan> plans{make_plan(key, Rank(0)), make_plan(key, Rank(1))};
    return plan_times(key, plans).end_ns;
  };
  const double whole = 1 << 20;
  EXPECT_NEAR(time({1000, 1000}, {1000, 999}), whole, 2e-3 * whole);
  EXPECT_NEAR(time({500, 1000}, {1000, 1000}), 2 * whole, 1e-3 * whole);
  EXPECT_NEAR(time({1000, 1000}, {1000, 250}), 4 * whole, 1e-3 * whole);
  EXPECT_NEAR(time({1000, 10}, {10, 1000}), whole, 1e-3 * whole);
}

}  // namespace
}  // namespace r2ccl
