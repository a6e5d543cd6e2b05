// Hosts without any network, for a while and for good.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "sim/all_reduce_job.h"
#include "sim/cluster.h"

namespace r2ccl {
namespace {

using Job = AllReduceJob;

void run(Cluster& cluster, Job& job, TimeNs limit) {
  ASSERT_TRUE(cluster.world().run_until([&] { return job.finished(); }, cluster.now() + limit));
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.wrong(), 0u);
  EXPECT_GT(job.checked(), 0u);
}

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

// TCP would be silent for much longer than the network was.
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

// What stays of it does not matter: neither an open management network, nor that connections which
// fell silent have not been closed.
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

// The bound is of time in which somebody looked.
TEST(Outage, StoppedRanksGiveNobodyUpForTheTimeInWhichTheyStood) {
  ClusterOptions options;
  options.hosts = 3;
  options.link.cutoff = 4 * kSecond;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(60);
  cluster.world().run_for(50 * kMillisecond);
  for (SimNic* nic : cluster.node(1).nics) cluster.fabric().pull(*nic);
  cluster.fabric().hole(*cluster.node(1).management);
  cluster.world().run_for(2 * kSecond);
  for (int rank = 0; rank < 3; ++rank) cluster.world().stop(cluster.node(rank).actor);
  cluster.world().run_for(20 * kSecond);
  for (int rank = 0; rank < 3; ++rank) cluster.world().resume(cluster.node(rank).actor);
  cluster.world().run_for(kSecond);
  for (SimNic* nic : cluster.node(1).nics) cluster.fabric().fix(*nic);
  cluster.fabric().fix(*cluster.node(1).management);
  run(cluster, job, 30 * kSecond);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.node(rank).ends.empty());
}

}  // namespace
}  // namespace r2ccl
