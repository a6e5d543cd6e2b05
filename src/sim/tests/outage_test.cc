// Hosts without any network, for some time or for good.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"
#include "sim/cluster/mixed_job.h"

namespace r2ccl::sim {
namespace {

using Job = AllReduceJob;

TEST(Outage, AHostWithoutAnyNicPausesTheJobAndIsTakenBack) {
  ClusterOptions options;
  options.hosts = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(60);
  for (int k = 0; k < options.nics; ++k) {
    cluster.fabric().at(cluster.now() + 50 * kMillisecond,
                        [&cluster, k] { cluster.fabric().pull(cluster.nic(1, k)); });
    cluster.fabric().at(cluster.now() + 7 * kSecond,
                        [&cluster, k] { cluster.fabric().fix(cluster.nic(1, k)); });
  }
  run(cluster, job, 30 * kSecond);
  EXPECT_GT(job.longest(), 6 * kSecond) << "it cannot have gone on without the host";
  EXPECT_LT(job.longest(), 8 * kSecond);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.node(rank).ends.empty());
}

// TCP's timer alone would be silent for much longer than the outage.
TEST(Outage, AShortOutageOfAWholeHostIsOverSoonAfterItsEnd) {
  constexpr TimeNs kOutage = 200 * kMillisecond;
  for (const bool pulled : {true, false}) {
    ClusterOptions options;
    options.nics = 4;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    Fabric& fabric = cluster.fabric();
    const TimeNs begin = cluster.now() + 50 * kMillisecond;
    for (SimNic* nic : cluster.node(1).nics) {
      fabric.at(begin, [&fabric, nic, pulled] { pulled ? fabric.pull(*nic) : fabric.hole(*nic); });
      fabric.at(begin + kOutage, [&fabric, nic] { fabric.fix(*nic); });
    }
    Job job(cluster, 128 * 1024);
    job.start(30);
    run(cluster, job, 30 * kSecond);
    EXPECT_GT(job.longest(), kOutage);
    EXPECT_LT(job.longest(), kOutage + 300 * kMillisecond) << (pulled ? "pulled" : "hole");
  }
}

// The remains of the host do not matter: neither an open management network, nor silent connections
// that have not been closed.
TEST(Outage, AHostThatStaysCutOffIsGivenUpInTime) {
  for (const bool management : {true, false}) {
    ClusterOptions options;
    options.hosts = 3;
    options.link.cutoff = 4 * kSecond;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    Job job(cluster, 64 * 1024);
    job.start(1000);
    cluster.world().run_for(50 * kMillisecond);
    for (SimNic* nic : cluster.node(1).nics) cluster.fabric().hole(*nic);
    if (!management) cluster.fabric().hole(*cluster.node(1).management);
    const auto given_up = [&] {
      return !cluster.node(0).ends.empty() && !cluster.node(2).ends.empty();
    };
    EXPECT_TRUE(cluster.world().run_until(given_up, cluster.now() + 10 * kSecond)) << management;
    for (const int rank : {0, 2}) {
      const std::vector<std::pair<Rank, PeerEnd>> wanted = {{Rank(1), PeerEnd::cut_off}};
      EXPECT_EQ(cluster.node(rank).ends, wanted);
    }
    job.abandon();
  }
}

// Only time in which a rank ran counts towards the bound: while no path is connected, none carries
// data, or all are silent.
TEST(Outage, StoppedRanksGiveNoPeerUpForTheTimeOfTheirStop) {
  enum class Kind { pulled, management_stays, holes };
  for (const Kind kind : {Kind::pulled, Kind::management_stays, Kind::holes}) {
    SCOPED_TRACE(static_cast<int>(kind));
    ClusterOptions options;
    options.hosts = 3;
    options.link.cutoff = 4 * kSecond;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    Fabric& fabric = cluster.fabric();
    SimRank& away = cluster.node(1);
    Job job(cluster, 64 * 1024);
    job.start(60);
    cluster.world().run_for(50 * kMillisecond);
    for (SimNic* nic : away.nics) kind == Kind::holes ? fabric.hole(*nic) : fabric.pull(*nic);
    if (kind != Kind::management_stays) fabric.hole(*away.management);
    // Up to a heartbeat of the stop counts, too: the ranks would have slept for so long anyway.
    cluster.world().run_for(1500 * kMillisecond);
    for (int rank = 0; rank < 3; ++rank) cluster.world().stop(cluster.node(rank).actor);
    cluster.world().run_for(20 * kSecond);
    for (int rank = 0; rank < 3; ++rank) cluster.world().resume(cluster.node(rank).actor);
    cluster.world().run_for(kSecond);
    for (SimNic* nic : away.nics) fabric.fix(*nic);
    fabric.fix(*away.management);
    run(cluster, job, 30 * kSecond);
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.node(rank).ends.empty());
  }
}

// The stopped rank's kernel accepts a limited number of connections, and holds a limited number of
// bytes.
TEST(Outage, ARankMayStandStillFarLongerThanTheCutOff) {
  ClusterOptions options;
  options.hosts = 3;
  options.link.cutoff = 4 * kSecond;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(60);
  cluster.world().run_for(50 * kMillisecond);
  cluster.world().stop(cluster.node(1).actor);
  cluster.world().run_for(3600 * kSecond);
  EXPECT_FALSE(job.finished());
  cluster.world().resume(cluster.node(1).actor);
  const TimeNs resumed = cluster.now();
  run(cluster, job, 30 * kSecond);
  EXPECT_LT(cluster.now(), resumed + kSecond);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.node(rank).ends.empty());
}

// Only the lower rank may open connections, whichever of the two has data to send.
TEST(Outage, IsOverSoonAfterItsEndAlsoForARankThatOnlyReceives) {
  for (const auto& [root, outage] :
       {std::pair(0, kSecond), {1, kSecond}, {0, 5 * kSecond}, {1, 5 * kSecond}}) {
    SCOPED_TRACE(std::to_string(root) + ", " + std::to_string(outage / kSecond) + " s");
    ClusterOptions options;
    options.checked = true;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    Scenario scenario;
    OperationSpec broadcast;
    broadcast.kind = OperationSpec::Kind::broadcast;
    broadcast.count = 256 * 1024;
    broadcast.root = root;
    scenario.operations.assign(10, broadcast);
    MixedJob job(cluster, scenario);
    job.start();
    cluster.world().run_for(50 * kMillisecond);
    const TimeNs end = cluster.now() + outage;
    SimRank& away = cluster.node(1);
    for (SimNic* nic : away.nics) cluster.fabric().hole(*nic);
    cluster.fabric().hole(*away.management);
    cluster.world().run_for(outage);
    for (SimNic* nic : away.nics) cluster.fabric().fix(*nic);
    cluster.fabric().fix(*away.management);
    EXPECT_FALSE(job.finished());
    EXPECT_TRUE(
        cluster.world().run_until([&] { return job.finished(); }, end + 740 * kMillisecond));
    EXPECT_EQ(cluster.check().violations(), std::vector<std::string>{});
  }
}

// The dialer must not give an attempt up before the answer can arrive.
TEST(Outage, ANicThatComesBackByALongerWayIsUsedAgain) {
  for (const TimeNs delay : {40 * kMillisecond, 100 * kMillisecond}) {
    SCOPED_TRACE(delay);
    Cluster cluster({});
    ASSERT_TRUE(cluster.connect());
    Fabric& fabric = cluster.fabric();
    SimNic& nic = cluster.nic(1, 0);
    cluster.world().run_for(kSecond);
    fabric.pull(nic);
    cluster.world().run_for(kSecond);
    fabric.fix(nic);
    fabric.delay(nic, delay);
    const auto up = [&] {
      return cluster.node(0).engine().link(Rank(1))->paths()[0]->state.phase() == PathPhase::up;
    };
    EXPECT_FALSE(up());
    EXPECT_TRUE(cluster.world().run_until(up, cluster.now() + 5 * kSecond));
  }
}

}  // namespace
}  // namespace r2ccl::sim
