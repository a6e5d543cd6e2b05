// All ranks of a job know which of its NICs carry nothing: after a partition, the death of the rank
// that decides, the abort of a communicator, and in jobs of many NICs.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/health/nic_health.h"
#include "sim/tests/contexts.h"
#include "sim/tests/job_nics.h"

namespace r2ccl::sim {
namespace {

constexpr TimeNs kMs = kMillisecond;
// The time in which all ranks know a loss that a rank has noticed at once.
constexpr TimeNs kKnown = 100 * kMs;
constexpr TimeNs kRoundTrip = kMs;

class NicHealthJob : public JobNics {};

// Hosts 1 and 5 do not reach the others.
class PartitionedJob : public JobNics {
 protected:
  static constexpr int kHostsOfJob = 6;
  enum class Kind : uint8_t {
    silent,     // all networks; each side takes the other one for suspended
    reset,      // all networks, and connections are opened anew, which fails
    data_only,  // all rails, and the management network works
  };
  static bool of_smaller(int host) { return host == 1 || host == 5; }
  static Places nics_of_smaller() { return {{1, 0}, {1, 1}, {5, 0}, {5, 1}}; }

  void part(Kind kind) {
    std::vector<SimHost*> some = {cluster_->node(1).host, cluster_->node(5).host};
    if (kind != Kind::data_only) cluster_->fabric().partition(some);
    for (int rail = 0; rail < 2 && kind == Kind::data_only; ++rail) {
      for (const int host : {0, 2, 3, 4}) {
        for (const int other : {1, 5}) cluster_->fabric().sever(nic(host, rail), nic(other, rail));
      }
    }
    if (kind != Kind::reset) return;
    cluster_->world().run_for(20 * kMs);
    for (const FlowInfo& flow : cluster_->fabric().flows()) cluster_->fabric().reset_flow(flow.id);
  }
};

// With opened connections each side has a rank of its own that decides, and a table that the other
// side contradicts: the NICs of the smaller side miss most hosts.
TEST_F(PartitionedJob, HasWholeNicsOnAllRanksWhenItHeals) {
  for (const Kind kind : {Kind::silent, Kind::reset, Kind::data_only}) {
    for (const TimeNs lasts : {50 * kMs, 300 * kMs, 4 * kSecond}) {
      SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + ", " +
                   std::to_string(lasts / kMs) + " ms");
      start(kHostsOfJob, 2);
      part(kind);
      cluster_->world().run_for(lasts);
      if (lasts == 4 * kSecond) {
        EXPECT_EQ(lost(1), kind == Kind::silent ? Places() : nics_of_smaller());
        EXPECT_EQ(lost(0), kind == Kind::data_only ? nics_of_smaller() : Places());
      }
      cluster_->fabric().heal_partition();
      EXPECT_LT(time_until({}, 30 * kSecond), 10 * kSecond);
      ASSERT_TRUE(cluster_->connect());
      cluster_->world().run_for(5 * kSecond);
      EXPECT_TRUE(all_know({}));
      expect_equal_tables();
      expect_works();
      EXPECT_TRUE(views_whole(*cluster_));
    }
  }
}

// A NIC of the smaller side is lost meanwhile, and one of the larger side.
TEST_F(PartitionedJob, KnowsANicThatWasLostMeanwhileWhenItHeals) {
  for (const Kind kind : {Kind::silent, Kind::reset, Kind::data_only}) {
    SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)));
    start(kHostsOfJob, 2);
    part(kind);
    cluster_->world().run_for(2 * kSecond);
    pull(5, 0);
    pull(3, 1);
    cluster_->world().run_for(kSecond);
    cluster_->fabric().heal_partition();
    EXPECT_LT(time_until({{5, 0}, {3, 1}}, 30 * kSecond), 10 * kSecond);
    cluster_->world().run_for(5 * kSecond);
    EXPECT_TRUE(all_know({{5, 0}, {3, 1}}));
    expect_equal_tables();
    fix(5, 0);
    fix(3, 1);
    EXPECT_LT(time_until({}, 10 * kSecond), 2 * kSecond);
    expect_equal_tables();
    expect_works();
  }
}

class DeathOfTheDecidingRank : public JobNics {
 protected:
  // The first NIC of the last host is lost `before` the deciding rank dies, or after that, if it is
  // negative. `known`: NICs that all ranks have held for lost for a while.
  void die(int hosts, TimeNs before, const Places& known) {
    ClusterOptions options;
    options.world.wakeup_jitter_ns = kMs;
    start(hosts, 2, options);
    for (const auto& [host, index] : known) pull(host, index);
    ASSERT_LT(time_until(known, kSecond), kKnown);
    cluster_->world().run_for(kSecond);
    const Places news = {{hosts - 1, 0}};
    if (before >= 0) pull(hosts - 1, 0);
    cluster_->world().run_for(std::max<TimeNs>(before, 0));
    kill(0);
    forgotten_ = false;
    if (before < 0) {
      watch(-before, known);
      pull(hosts - 1, 0);
    }
    EXPECT_TRUE(within(kKnown + kRoundTrip, [&] { return all_miss(news); }));
    watch(kSecond, known);
    EXPECT_FALSE(forgotten_) << "the table of the dead rank is lost";
    for (const auto& [host, index] : known) fix(host, index);
    const auto returned = [&] {
      bool any = false;
      for_living([&](int rank) {
        for (const auto& each : known) any = any || lost(rank).contains(each);
      });
      return !any;
    };
    EXPECT_TRUE(within(2 * kSecond, returned));
    // With two hosts left, either NIC of a rail may be the one that is lost.
    EXPECT_TRUE(hosts == 3 ? all_miss(news) : all_know(news));
    expect_equal_tables();
  }

 private:
  bool all_miss(const Places& places) {
    bool all = true;
    for_living([&](int rank) {
      const Places own = lost(rank);
      all = all && std::ranges::includes(own, places);
    });
    return all;
  }
  void watch(TimeNs time, const Places& known) {
    within(time, [&] {
      forgotten_ = forgotten_ || !all_miss(known);
      return forgotten_;
    });
  }
  bool forgotten_ = false;
};

// The ranks learn of the death and of the loss at different moments, and in any order.
TEST_F(DeathOfTheDecidingRank, AtAnyMomentKeepsWhatItKnewAndLosesNoNews) {
  for (const int hosts : {3, 4, 5}) {
    for (const Places& known : {Places{}, Places{{1, 1}}}) {
      // All happens within the time that the reports of one fault take.
      constexpr TimeNs kClose = 60 * kMs;
      for (TimeNs before = -20 * kMs; before <= 300 * kMs;
           before += before < kClose ? kMs : 10 * kMs) {
        SCOPED_TRACE(std::to_string(hosts) + " hosts, the NIC is lost " +
                     std::to_string(before / kMs) + " ms before the death, " +
                     std::to_string(known.size()) + " has been lost");
        die(hosts, before, known);
        if (HasFailure()) return;
      }
    }
  }
}

// The ranks that are left make a communicator of their own, whose plans know of the NIC.
TEST_F(DeathOfTheDecidingRank, LeavesTheRatesToTheCommunicatorOfTheOthers) {
  start(4, 2);
  pull(2, 1);
  ASSERT_LT(time_until({{2, 1}}, kSecond), kKnown);
  kill(0);
  const auto failed = [&] {
    bool all = true;
    for_living([&](int rank) { all = all && cluster_->node(rank).failed(); });
    return all;
  };
  ASSERT_TRUE(within(5 * kSecond, failed));
  for (const int rank : {1, 2, 3})
    ASSERT_TRUE(cluster_->node(rank).runtime->begin_shrink({Rank(0)}).ok());
  cluster_->wake_all();
  cluster_->world().run_for(kSoon);
  Group left(*cluster_, 1000, {1, 2, 3});
  left.begin_all();
  ASSERT_TRUE(within(5 * kSecond, [&] { return left.all_ended(); }));
  EXPECT_TRUE(left.right());
  const auto plan_without = [&](const Places& unused) {
    for (size_t rank = 0; rank < 3; ++rank) {
      if (unused_by(left.rank(rank).views()->agreement().latest().view) != unused) return false;
    }
    return true;
  };
  EXPECT_TRUE(within(kSecond, [&] { return plan_without({{1, 1}}); }));
  fix(2, 1);
  EXPECT_TRUE(within(2 * kSecond, [&] { return plan_without({}); }));
  left.begin_all(1);
  ASSERT_TRUE(within(5 * kSecond, [&] { return left.all_ended(); }));
  EXPECT_TRUE(left.right(1));
}

// One of two NICs of a rail has a verdict and is repaired, and the other stays lost. The repaired
// one misses no host but that one.
TEST_F(NicHealthJob, OfTwoLostNicsOfARailTheRepairedOneReturns) {
  for (const bool large_only : {false, true}) {
    start(5, 2);
    AllReduceJob job(*cluster_, 8192, Algorithm::ring);
    if (large_only) job.start(1'000'000);
    cluster_->world().run_for(50 * kMs);
    if (large_only) {
      cluster_->fabric().mtu_hole(nic(1, 0), 1000);
    } else {
      cluster_->fabric().hole(nic(1, 0));
    }
    EXPECT_LT(time_until({{1, 0}}, 5 * kSecond), 3 * kSecond / 2) << large_only;
    pull(3, 0);
    EXPECT_LT(time_until({{1, 0}, {3, 0}}, kSecond), kKnown) << large_only;
    cluster_->world().run_for(kSecond);
    EXPECT_TRUE(all_know({{1, 0}, {3, 0}})) << large_only;
    EXPECT_TRUE(all_plan_without({{1, 0}, {3, 0}})) << large_only;
    fix(1, 0);
    EXPECT_LT(time_until({{3, 0}}, 20 * kSecond), 10 * kSecond) << large_only;
    cluster_->world().run_for(2 * kSecond);
    EXPECT_TRUE(all_know({{3, 0}})) << large_only;
    EXPECT_TRUE(all_plan_without({{3, 0}})) << large_only;
    EXPECT_EQ(verdicts(0).size(), 2u) << large_only;
    fix(3, 0);
    EXPECT_LT(time_until({}, 10 * kSecond), 2 * kSecond) << large_only;
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.wrong(), 0u);
    EXPECT_EQ(job.checked() > 0, large_only);
    job.abandon();
  }
}

// The lower rank of the host sends small packets by the NIC, and its idle paths are up.
TEST_F(NicHealthJob, ASharedNicThatFailsTheHigherRankOnlyIsLost) {
  ClusterOptions options;
  options.ranks_per_host = 2;
  start(4, 2, options);
  Group higher(*cluster_, 1000, {1, 3, 5, 7});
  int round = 0;
  const auto work = [&] {
    if (round > 0 && !higher.all_ended()) return;
    EXPECT_TRUE(round == 0 || higher.right(round - 1));
    higher.begin_all(round++);
  };
  const auto works_until = [&](const Places& wanted) {
    return within(20 * kSecond, [&] {
      work();
      return all_know(wanted);
    });
  };
  EXPECT_TRUE(works_until({}));
  cluster_->fabric().mtu_hole(nic(2, 1), 1000);
  const TimeNs from = cluster_->now();
  EXPECT_TRUE(works_until({{2, 1}}));
  EXPECT_LT(cluster_->now() - from, 2 * kSecond);
  EXPECT_TRUE(within(kSecond, [&] { return all_plan_without({{2, 1}}); }));
  EXPECT_EQ(verdicts(0), std::vector<std::string>{"verdict: nic h2 nic1, stalled"});
  fix(2, 1);
  EXPECT_TRUE(works_until({}));
  EXPECT_TRUE(within(5 * kSecond, [&] { return higher.all_ended(); }));
  EXPECT_TRUE(higher.right(round - 1));
}

// The rank that decides goes on with that while another communicator of the job needs it.
TEST_F(NicHealthJob, ACommunicatorThatIsAbortedLeavesTheRatesOfTheOthers) {
  for (const int aborted : {0, 1}) {
    ClusterOptions options;
    options.communicators = 2;
    start(4, 2, options);
    Group works(*cluster_, 2000, {0, 1, 2, 3});
    int round = 0;
    const auto reduce = [&](const std::string& when) {
      works.begin_all(round);
      EXPECT_TRUE(within(5 * kSecond, [&] { return works.all_ended(); })) << when;
      EXPECT_TRUE(works.right(round++)) << when;
    };
    const int other = 1 - aborted;
    pull(2, 1);
    EXPECT_LT(time_until({{2, 1}}, kSecond), kKnown) << aborted;
    cluster_->node(0).communicator(aborted).abort("the caller aborts");
    cluster_->wake_all();
    reduce("after the abort");
    EXPECT_FALSE(cluster_->node(3).communicator(aborted).failure().ok());
    EXPECT_TRUE(cluster_->node(3).communicator(other).failure().ok());
    EXPECT_TRUE(all_plan_without({{2, 1}}, other)) << aborted;
    pull(1, 0);
    reduce("while the NIC is lost");
    EXPECT_LT(time_until({{1, 0}, {2, 1}}, kSecond), kKnown) << aborted;
    EXPECT_TRUE(within(kSecond, [&] { return all_plan_without({{1, 0}, {2, 1}}, other); }));
    fix(1, 0);
    fix(2, 1);
    EXPECT_LT(time_until({}, 5 * kSecond), 2 * kSecond) << aborted;
    EXPECT_TRUE(within(kSecond, [&] { return all_plan_without({}, other); }));
    reduce("after the repair");
  }
}

// The table goes out in parts of some hosts each.
TEST_F(NicHealthJob, ALossInTheLastPartOfTheTableReachesAllRanks) {
  ClusterOptions options;
  options.data_at_start = false;
  options.turns_per_check = 0;
  const int hosts = static_cast<int>(kTableRatesMax / 8) + 2;
  start(hosts, 8, options);
  pull(hosts - 1, 7);
  EXPECT_LT(time_until({{hosts - 1, 7}}, kSecond), kKnown);
  pull(0, 0);
  EXPECT_LT(time_until({{0, 0}, {hosts - 1, 7}}, kSecond), kKnown);
  fix(hosts - 1, 7);
  EXPECT_LT(time_until({{0, 0}}, 5 * kSecond), kSecond);
  expect_equal_tables();
}

}  // namespace
}  // namespace r2ccl::sim
