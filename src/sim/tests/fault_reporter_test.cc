// Verdicts of whole jobs: which verdict each rank receives, and when.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace r2ccl::sim
