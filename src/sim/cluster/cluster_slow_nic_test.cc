// The main job on the fabric while one NIC is slower than the others.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

using Job = AllReduceJob;

// Acknowledgements take the control streams in turn. The control stream of the slow NIC must not
// delay the data of the other NICs.
TEST(Cluster, ANicThatBecomesFiveMillisecondsSlowerHoldsUpNobodyForLong) {
  for (int host = 0; host < 4; ++host) {
    for (int nic = 0; nic < 4; ++nic) {
      ClusterOptions options;
      options.hosts = 4;
      options.nics = 4;
      Cluster cluster(options);
      ASSERT_TRUE(cluster.connect());
      cluster.fabric().at(cluster.now() + 70 * kMillisecond, [&] {
        cluster.fabric().delay(cluster.nic(host, nic), 5 * kMillisecond);
      });
      Job job(cluster, 128 * 1024);
      job.start(30);
      run(cluster, job, 20 * kSecond);
      EXPECT_LT(job.longest(), 60 * kMillisecond) << "host " << host << " nic " << nic;
    }
  }
}

// To the stopped rank a control stream looks slow, and pings of the other rank keep it busy.
TEST(Cluster, AControlStreamThatWasLateOnceTakesItsTurnAgain) {
  ClusterOptions options;
  options.nics = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 32 * 1024);
  job.start(2000);
  for (int i = 0; i < 40; ++i) {
    cluster.world().run_for(17 * kMillisecond);
    cluster.world().stop(cluster.node(0).actor);
    cluster.world().run_for(30 * kMillisecond);
    cluster.world().resume(cluster.node(0).actor);
  }
  cluster.world().run_for(1500 * kMillisecond);
  const auto& paths = cluster.node(1).engine().link(Rank(0))->paths();
  std::vector<uint64_t> before;
  for (const auto& path : paths) before.push_back(path->control_received());
  cluster.world().run_for(kSecond);
  EXPECT_FALSE(job.finished());
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i]->spec.control_only) continue;
    EXPECT_GT(paths[i]->control_received() - before[i], 100u) << paths[i]->spec.local_name;
  }
}

// Returns the duration of `operations` operations, divided by the time that the lines of three NICs
// need. The third of four NICs of rank 1 has `share` of the rate of the others.
double cost_of_a_slow_nic(int hosts, double share, uint64_t bytes, int operations) {
  ClusterOptions options;
  options.hosts = hosts;
  options.nics = 4;
  options.world.network.stream.segment_bytes = 1448;
  Cluster cluster(options);
  EXPECT_TRUE(cluster.connect());
  const auto rate = static_cast<double>(options.rate_bytes_per_s);
  cluster.fabric().slow(cluster.nic(1, 2), static_cast<uint64_t>(share * rate));
  const uint64_t count = bytes / sizeof(int64_t);
  Job settling(cluster, count);
  settling.start(operations / 2);
  run(cluster, settling, 20 * kSecond);
  Job job(cluster, count);
  job.start(operations);
  const TimeNs began = cluster.now();
  run(cluster, job, 20 * kSecond);
  const double sent = operations * static_cast<double>(bytes) * 2 * (hosts - 1) / hosts;
  return static_cast<double>(cluster.now() - began) / (sent / (3 * rate) * 1e9);
}

TEST(Cluster, ASlowNicHoldsUpNoOperation) {
  constexpr uint64_t kMegabyte = 1 << 20;
  EXPECT_LT(cost_of_a_slow_nic(3, 0.1, kMegabyte, 50), 1 / 0.95);
  EXPECT_LT(cost_of_a_slow_nic(4, 0.1, kMegabyte, 50), 1 / 0.97);
  EXPECT_LT(cost_of_a_slow_nic(4, 0.1, 16 * kMegabyte, 2), 1 / 0.99);
}

// The link leaves the slow NIC out when an operation would wait for it. Three paths get an equal
// part each, and the slow path shows its rate when it is alone.
TEST(Cluster, ASlowNicIsLeftOutOfSmallOperations) {
  // Three NICs alone reach 72 % and 95 % of their line rate.
  EXPECT_LT(cost_of_a_slow_nic(4, 0.1, 64 * 1024, 100), 1 / 0.62);
  EXPECT_LT(cost_of_a_slow_nic(4, 0.1, 256 * 1024, 100), 1 / 0.6);
}

// A shaper lets a bandwidth probe and more pass at full rate, as token buckets do. The path goes on
// probation again and again, and fails each time. The order of frames alone makes an operation up
// to 1.28 times as long as the median; one that waits for the slow NIC takes 1.7 times as long.
TEST(Cluster, NoOperationWaitsForASlowNicThatLooksFast) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  options.world.network.stream.segment_bytes = 1448;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  cluster.fabric().slow(cluster.nic(1, 2), options.rate_bytes_per_s / 10, 66'000);
  Job settling(cluster, 128 * 1024);
  settling.start(50);
  run(cluster, settling, 20 * kSecond);
  Job job(cluster, 128 * 1024);  // 1 MB
  job.start(200);
  run(cluster, job, 20 * kSecond);
  std::vector<TimeNs> times;
  for (const auto& one : job.operations()) times.push_back(one.ended - one.began);
  std::ranges::sort(times);
  EXPECT_LT(times[198], times[100] * 14 / 10) << times.back();
}

TEST(Cluster, AHealedNicIsUsedAgainAtOnce) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  options.world.network.stream.segment_bytes = 1448;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  SimNic& nic = cluster.nic(1, 2);
  cluster.fabric().slow(nic, options.rate_bytes_per_s / 10);
  Job slow(cluster, 32 * 1024);  // 256 KB: too few bytes for the slow NIC
  slow.start(200);
  run(cluster, slow, 20 * kSecond);
  cluster.fabric().fix(nic);
  Job job(cluster, 32 * 1024);
  job.start(200);
  cluster.world().run_for(200 * kMillisecond);
  const uint64_t before = nic.bytes_sent;
  const uint64_t others = cluster.nic(1, 1).bytes_sent;
  run(cluster, job, 20 * kSecond);
  EXPECT_GT(nic.bytes_sent - before, (cluster.nic(1, 1).bytes_sent - others) / 2);
}

}  // namespace
}  // namespace r2ccl::sim
