// Two hosts that have lost different rails reach each other through a third one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

using Job = AllReduceJob;

ClusterOptions three_hosts() {
  ClusterOptions options;
  options.hosts = 3;
  options.management = false;
  options.link.cutoff = 4 * kSecond;
  return options;
}

// Host 0 loses rail 0, host 1 loses rail 1.
void lose_rails(Cluster& cluster) {
  cluster.fabric().pull(cluster.nic(0, 0));
  cluster.fabric().pull(cluster.nic(1, 1));
}

const Path* relay_of(Cluster& cluster, int rank, int peer) {
  const auto paths = cluster.node(rank).engine().link(Rank(peer))->paths();
  const Path* last = paths[paths.size() - 1];
  return last->spec.relay ? last : nullptr;
}

TEST(Relay, TwoHostsWithoutACommonRailGoOnThroughAThird) {
  Cluster cluster(three_hosts());
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 256 * 1024);
  job.start(100);
  cluster.world().run_for(50 * kMillisecond);
  lose_rails(cluster);
  run(cluster, job, 30 * kSecond);
  EXPECT_LT(job.longest(), kSecond);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.node(rank).ends.empty());
  ASSERT_NE(relay_of(cluster, 0, 1), nullptr);
  EXPECT_TRUE(relay_of(cluster, 0, 1)->state.usable());
  EXPECT_EQ(relay_of(cluster, 0, 2), nullptr) << "host 2 reaches both";
}

}  // namespace
}  // namespace r2ccl::sim
