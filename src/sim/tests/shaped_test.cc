// NICs behind a shaper with a token bucket, as in clouds and the lab. A burst at many times the
// rate is no reason to leave other NICs idle.
#include <gtest/gtest.h>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kBuilt = 6'250'000'000;  // bytes per second
constexpr uint64_t kShaped = 31'250'000;
constexpr uint64_t kBurst = kShaped / 250;
constexpr int kHosts = 4;
constexpr int kNics = 4;
constexpr int kOperations = 24;

TEST(Shaped, LargeOperationsKeepEveryNicBusy) {
  ClusterOptions options;
  options.hosts = kHosts;
  options.nics = kNics;
  options.rate_bytes_per_s = kBuilt;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (int host = 0; host < kHosts; ++host) {
    for (int k = 0; k < kNics; ++k) cluster.fabric().slow(cluster.nic(host, k), kShaped, kBurst);
  }
  constexpr uint64_t kBytes = 16 * 1024 * 1024;
  constexpr uint64_t kSent = 2 * kBytes * (kHosts - 1) / kHosts;
  constexpr auto kLine = static_cast<TimeNs>(kSent * kSecond / (kNics * kShaped));
  AllReduceJob job(cluster, kBytes / sizeof(int64_t));
  job.start(kOperations);
  run(cluster, job, 30 * kSecond);
  EXPECT_LT(job.longest(), kLine + kLine / 10);
}

}  // namespace
}  // namespace r2ccl::sim
