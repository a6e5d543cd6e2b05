// Ranks measure the costs of messages and bytes at the start, and agree on them.
#include "runtime/collective/cost_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plan/cost_model.h"
#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kRate = 31'250'000;  // of a NIC, bytes/s

ClusterOptions options_of(int hosts, int ranks_per_host, int nics = 2) {
  ClusterOptions options;
  options.hosts = hosts;
  options.ranks_per_host = ranks_per_host;
  options.nics = nics;
  options.rate_bytes_per_s = kRate;
  options.checked = true;
  return options;
}

class Measurement {
 public:
  explicit Measurement(const ClusterOptions& options) : cluster_(options) {
    EXPECT_TRUE(within(
        kSecond, [this] { return all([](RankRuntime& each) { return each.engine().ready(); }); }));
    for (int rank = 0; rank < cluster_.size(); ++rank) runtime(rank).measure_costs();
    cluster_.wake_all();
  }

  Cluster& cluster() { return cluster_; }
  RankRuntime& runtime(int rank) { return *cluster_.node(rank).runtime; }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_.world().run_until(done, cluster_.now() + time);
  }
  bool all(const std::function<bool(RankRuntime&)>& holds) {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      if (!holds(runtime(rank))) return false;
    }
    return true;
  }
  bool agreed() {
    return all([](RankRuntime& each) { return each.costs_agreed(); });
  }
  // Expects that the ranks agree, on equal costs. Returns them.
  PlanCosts costs() {
    EXPECT_TRUE(within(5 * kSecond, [this] { return agreed(); }));
    const PlanCosts first = runtime(0).costs();
    EXPECT_TRUE(all([&](RankRuntime& each) { return each.costs() == first; }));
    return first;
  }

 private:
  Cluster cluster_;
};

// Bytes take their time on the line. A hop takes at least the way, and less than a millisecond on
// this fabric.
void expect_network(const DomainCosts& costs, int nics, int sharers) {
  const double kib_ps = 1024e12 / (static_cast<double>(kRate) * nics);
  EXPECT_NEAR(static_cast<double>(costs.leader_kib_ps), kib_ps, kib_ps * 0.6);
  EXPECT_NEAR(static_cast<double>(costs.kib_ps), sharers * kib_ps, sharers * kib_ps / 2);
  EXPECT_GE(costs.leader_hop_ns, 40'000u);
  EXPECT_LE(costs.leader_hop_ns, 1'000'000u);
}

TEST(CostMeter, MeasuresTheNetwork) {
  for (const int nics : {1, 2, 4}) {
    Measurement measurement(options_of(4, 1, nics));
    const PlanCosts costs = measurement.costs();
    expect_network(costs.network, nics, 1);
    EXPECT_EQ(costs.memory, bounded(PlanCosts()).memory);
  }
}

TEST(CostMeter, CountsRanksThatShareNics) {
  Measurement measurement(options_of(2, 3));
  const PlanCosts costs = measurement.costs();
  expect_network(costs.network, 2, 3);
  EXPECT_LT(costs.memory.kib_ps, costs.network.kib_ps);
}

TEST(CostMeter, FindsTheSameCostsInTheSameRun) {
  Measurement first(options_of(3, 2));
  Measurement second(options_of(3, 2));
  EXPECT_EQ(first.costs(), second.costs());
}

TEST(CostMeter, HasNothingToMeasureOnOneRank) {
  Measurement measurement(options_of(1, 1));
  EXPECT_EQ(measurement.costs(), PlanCosts());
}

TEST(CostMeter, SurvivesANicThatDiesMeanwhile) {
  for (TimeNs after = 0; after < 40 * kMillisecond; after += 4 * kMillisecond) {
    Measurement measurement(options_of(3, 2));
    measurement.cluster().world().run_for(after);
    const bool early = !measurement.agreed();
    measurement.cluster().fabric().pull(measurement.cluster().nic(0, 1));
    measurement.costs();
    EXPECT_TRUE(early || after > 8 * kMillisecond);
  }
}

TEST(CostMeter, EndsWithTheRankThatDies) {
  Measurement measurement(options_of(3, 1));
  measurement.cluster().world().run_for(5 * kMillisecond);
  ASSERT_FALSE(measurement.agreed());
  measurement.runtime(1).abort("the caller has had enough");
  measurement.cluster().wake_all();
  EXPECT_TRUE(measurement.within(5 * kSecond, [&] {
    return measurement.all([](RankRuntime& each) { return !each.failure().ok(); });
  }));
}

TEST(CostMeter, IsFollowedByCollectives) {
  Measurement measurement(options_of(2, 2));
  const PlanCosts costs = measurement.costs();
  AllReduceJob job(measurement.cluster(), 1000);
  job.start(3);
  EXPECT_TRUE(measurement.within(kSecond, [&] { return job.finished(); }));
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.wrong(), 0u);
  EXPECT_NE(costs, PlanCosts());
}

}  // namespace
}  // namespace r2ccl::sim
