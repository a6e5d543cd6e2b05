// Verdicts of whole jobs: which verdict each rank receives, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

TEST(FaultReporter, EveryRankHoldsTheSameVerdict) {
  ClusterOptions options;
  options.hosts = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  AllReduceJob job(cluster, 1 << 17);
  job.start(20);
  cluster.fabric().at(cluster.now() + 30 * kMillisecond,
                      [&] { cluster.fabric().hole(cluster.nic(2, 1)); });
  ASSERT_TRUE(
      cluster.world().run_until([&] { return job.finished(); }, cluster.now() + 20 * kSecond));
  cluster.world().run_for(kSecond);
  EXPECT_EQ(job.wrong(), 0u);
  const auto& verdicts = cluster.node(0).fault_reporter().verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].faulty, (NicName{2, "nic1"}));
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(cluster.node(rank).fault_reporter().verdicts(), verdicts);
}

// Ranks that cannot probe are no evidence: two hosts have lost the NIC, and only that NIC.
TEST(FaultReporter, RanksWithoutDescriptorsAccuseNoInnocent) {
  ClusterOptions options;
  options.hosts = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  AllReduceJob job(cluster, 1 << 17);
  job.start(200);
  for (int rank = 0; rank < 3; ++rank) cluster.node(rank).host->set_descriptors_left(false);
  cluster.fabric().at(cluster.now() + 30 * kMillisecond,
                      [&] { cluster.fabric().hole(cluster.nic(1, 0)); });
  cluster.world().run_for(4 * kSecond);
  job.abandon();
  const auto& verdicts = cluster.node(0).fault_reporter().verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].faulty, (NicName{1, "nic0"}));
}

// Changes a bit of the next frame on each connection of this path, towards that NIC.
void tamper_towards(Cluster& cluster, const SimNic& near, const SimNic& far) {
  const Tamper tamper;
  for (const FlowInfo& flow : cluster.fabric().flows()) {
    const bool connects = flow.from == &far && flow.to == &near;
    if (!connects && (flow.from != &near || flow.to != &far)) continue;
    cluster.fabric().tamper(flow.id, connects ? 0 : 1, tamper);
  }
}

bool lost_a_path(Cluster& cluster, int rank) {
  return std::ranges::any_of(cluster.node(rank).events,
                             [](const PathEvent& event) { return event.to == PathPhase::down; });
}

// Ranks 1 and 3 lose a path, because rank 1 reads a frame that was changed. Then ranks 0 and 1
// leave. Rank 0 has localised until then; rank 1 does not repeat to another rank that the bytes
// were wrong.
class LeavingAfterTampering {
 public:
  LeavingAfterTampering() : cluster_(options()) {}

  void lose_the_path() {
    ASSERT_TRUE(cluster_.connect());
    tamper_towards(cluster_, cluster_.nic(1, 1), cluster_.nic(3, 1));
    const auto lost = [this] { return lost_a_path(cluster_, 1) && lost_a_path(cluster_, 3); };
    ASSERT_TRUE(cluster_.world().run_until(lost, cluster_.now() + 5 * kSecond));
    cluster_.world().run_for(20 * kMillisecond);
  }
  // Returns how many verdicts the ranks that stay hold in the end.
  size_t leave(TimeNs later) {
    cluster_.node(0).begin_goodbye();
    cluster_.world().run_for(later);
    cluster_.node(1).begin_goodbye();
    cluster_.world().run_for(4 * kSecond);
    return verdicts(2) + verdicts(3);
  }

 private:
  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = 4;
    return options;
  }
  size_t verdicts(int rank) { return cluster_.node(rank).fault_reporter().verdicts().size(); }

  Cluster cluster_;
};

TEST(FaultReporter, RanksThatLeaveAfterAFrameWasChangedAccuseNoNic) {
  for (const TimeNs later : {0, 20, 40, 60, 80, 100, 150, 200, 1'000}) {
    LeavingAfterTampering ranks;
    ASSERT_NO_FATAL_FAILURE(ranks.lose_the_path());
    EXPECT_EQ(ranks.leave(later * kMicrosecond), 0u) << later << " us later";
  }
}

// Rank 1 reads a changed frame of rank 2, and its report does not reach the localising rank. That
// of rank 2 does.
TEST(FaultReporter, BothEndsOfAPathWithChangedBytesTellTheCause) {
  ClusterOptions options;
  options.hosts = 3;
  options.management = false;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (int nic = 0; nic < 2; ++nic)
    cluster.fabric().sever(cluster.nic(0, nic), cluster.nic(1, nic));
  tamper_towards(cluster, cluster.nic(1, 1), cluster.nic(2, 1));
  ASSERT_TRUE(cluster.world().run_until([&] { return lost_a_path(cluster, 2); },
                                        cluster.now() + 5 * kSecond));
  cluster.world().run_for(4 * kSecond);
  const auto& verdicts = cluster.node(0).fault_reporter().verdicts();
  const auto on_ends = [](const Verdict& verdict) {
    return verdict.faulty.host != 0 && verdict.other.host != 0;
  };
  EXPECT_EQ(std::ranges::count_if(verdicts, on_ends), 0);
}

// Rank 1 loses its NIC just when rank 0 has closed a path of it because of its bytes, and hears of
// both at once.
TEST(FaultReporter, ANicThatGoesDownAfterAFrameWasChangedIsNamed) {
  Cluster cluster(ClusterOptions{});
  ASSERT_TRUE(cluster.connect());
  tamper_towards(cluster, cluster.nic(0, 1), cluster.nic(1, 1));
  ASSERT_TRUE(cluster.world().run_until([&] { return lost_a_path(cluster, 0); },
                                        cluster.now() + 5 * kSecond));
  ASSERT_FALSE(lost_a_path(cluster, 1));
  cluster.world().stop(cluster.node(1).actor);
  cluster.fabric().down(cluster.nic(1, 1));
  cluster.world().run_for(10 * kMillisecond);
  cluster.world().resume(cluster.node(1).actor);
  cluster.world().run_for(4 * kSecond);
  const auto& verdicts = cluster.node(0).fault_reporter().verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].faulty, (NicName{1, "nic1"}));
}

// Rank 1 ends the drain of its nic1 just when rank 2 has read a changed frame there: for rank 2 the
// path is still on standby, for rank 1 it is in use.
TEST(FaultReporter, AChangedFrameOnAPathThatOneEndHasOnStandbyAccusesNoNic) {
  ClusterOptions options;
  options.hosts = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  ProgressEngine& drained = cluster.node(1).engine();
  drained.set_drained(NicId(1), true);
  cluster.wake_all();
  cluster.world().run_for(100 * kMillisecond);
  ASSERT_TRUE(cluster.node(2).engine().tally_drain(Rank(1), "nic1").out_of_service());
  tamper_towards(cluster, cluster.nic(2, 1), cluster.nic(1, 1));
  ASSERT_TRUE(cluster.world().run_until([&] { return lost_a_path(cluster, 2); },
                                        cluster.now() + 5 * kSecond));
  ASSERT_FALSE(lost_a_path(cluster, 1));
  drained.set_drained(NicId(1), false);
  cluster.wake_all();
  cluster.world().run_for(4 * kSecond);
  EXPECT_TRUE(lost_a_path(cluster, 1));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(cluster.node(rank).fault_reporter().verdicts().empty()) << rank;
  }
}

// The localising rank's host is cut off from all networks. Meanwhile ranks 2 and 3 lose the path of
// their nic1. The localising rank reads their reports after the cut.
class CutOffLocaliser {
 public:
  CutOffLocaliser() : cluster_(options()) {}

  // Returns the number of verdicts on hosts 2 and 3 that rank 2 holds a while after the cut.
  size_t verdicts_after(const std::function<void(Cluster&)>& fault) {
    EXPECT_TRUE(cluster_.connect());
    cut_off(true);
    cluster_.world().run_for(20 * kMillisecond);
    fault(cluster_);
    cluster_.world().run_for(800 * kMillisecond);
    cut_off(false);
    cluster_.world().run_for(6 * kSecond);
    const auto& verdicts = cluster_.node(2).fault_reporter().verdicts();
    return static_cast<size_t>(std::ranges::count_if(verdicts, [](const Verdict& verdict) {
      return verdict.faulty.host >= 2 && (verdict.scope != Scope::pair || verdict.other.host >= 2);
    }));
  }

 private:
  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = 4;
    return options;
  }
  void cut_off(bool begins) {
    std::vector<SimNic*> nics = {&cluster_.nic(0, 0), &cluster_.nic(0, 1),
                                 cluster_.node(0).management};
    for (SimNic* nic : nics) {
      if (nic == nullptr) continue;
      begins ? cluster_.fabric().hole(*nic) : cluster_.fabric().fix(*nic);
    }
  }

  Cluster cluster_;
};

// The path was up again at once. Probes tell nothing about a loss so long ago.
TEST(FaultReporter, ALocaliserThatHearsOfALossTooLateAccusesNoPair) {
  const auto reset = [](Cluster& cluster) {
    const SimNic* near = &cluster.nic(2, 1);
    const SimNic* far = &cluster.nic(3, 1);
    for (const FlowInfo& flow : cluster.fabric().flows()) {
      const bool of_pair =
          (flow.from == near && flow.to == far) || (flow.from == far && flow.to == near);
      if (of_pair) cluster.fabric().reset_flow(flow.id);
    }
  };
  EXPECT_EQ(CutOffLocaliser().verdicts_after(reset), 0u);
}

TEST(FaultReporter, ALossThatLastsIsReportedAgainToALocaliserThatWasCutOff) {
  const auto sever = [](Cluster& cluster) {
    cluster.fabric().sever(cluster.nic(2, 1), cluster.nic(3, 1));
    cluster.node(2).engine().link(Rank(3))->ping(NicId(1));
  };
  EXPECT_EQ(CutOffLocaliser().verdicts_after(sever), 1u);
}

}  // namespace
}  // namespace r2ccl::sim
