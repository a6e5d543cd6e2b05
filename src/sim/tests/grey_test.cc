// The cost of a grey NIC for operations that end before it is noticed to be late: no more than the
// cost of a dead NIC.
#include <gtest/gtest.h>

#include <functional>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

using Fault = std::function<void(Fabric&, SimNic&)>;

struct Network {
  int hosts;
  uint64_t rate_bytes_per_s;
  uint64_t elements = 8 * 1024;  // number of 8-byte elements
  int nics = 4;
  // A larger segment would hold the end of a chunk and the start of the next, and arrive with the
  // latter: that matters where an operation is one chunk.
  uint64_t packet_bytes = 1500;
};

// Returns an operation's average time, well after the fault.
TimeNs duration(const Network& network, const Fault& fault) {
  ClusterOptions options;
  options.hosts = network.hosts;
  options.nics = network.nics;
  options.rate_bytes_per_s = network.rate_bytes_per_s;
  options.world.network.stream.segment_bytes = network.packet_bytes;
  Cluster cluster(options);
  EXPECT_TRUE(cluster.connect());
  AllReduceJob before(cluster, network.elements);
  before.start(100);
  run(cluster, before, 20 * kSecond);
  fault(cluster.fabric(), cluster.nic(1, network.nics / 2));
  AllReduceJob settling(cluster, network.elements);
  settling.start(800);
  run(cluster, settling, 20 * kSecond);
  AllReduceJob job(cluster, network.elements);
  job.start(400);
  run(cluster, job, 20 * kSecond);
  return (job.operations().back().ended - job.operations().front().began) / 400;
}

class Grey : public testing::TestWithParam<Network> {};

TEST_P(Grey, ABadNicCostsSmallOperationsNoMoreThanALostOne) {
  const uint64_t rate = GetParam().rate_bytes_per_s;
  const TimeNs lost = duration(GetParam(), [](Fabric& f, SimNic& nic) { f.pull(nic); });
  const std::pair<const char*, Fault> faults[] = {
      {"rate at 10 %", [rate](Fabric& f, SimNic& nic) { f.slow(nic, rate / 10); }},
      {"rate at 1 %", [rate](Fabric& f, SimNic& nic) { f.slow(nic, rate / 100); }},
      {"5 ms", [](Fabric& f, SimNic& nic) { f.delay(nic, 5 * kMillisecond); }},
      {"100 ms", [](Fabric& f, SimNic& nic) { f.delay(nic, 100 * kMillisecond); }},
  };
  for (const auto& [name, fault] : faults) {
    // The split of a message by estimates that are a few percent apart costs up to 5 %.
    EXPECT_LT(100 * duration(GetParam(), fault), 106 * lost) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Grey,
                         testing::Values(Network{2, 31'250'000}, Network{3, 31'250'000},
                                         Network{4, 31'250'000},
                                         Network{4, 31'250'000, 32 * 1024, 4, 16 * 1024},
                                         Network{2, 31'250'000, 2 * 1024, 2},
                                         Network{2, 125'000'000, 512, 2}),
                         [](const auto& each) {
                           return std::to_string(each.param.hosts) + "Hosts" +
                                  std::to_string(each.param.nics) + "Nics" +
                                  std::to_string(each.param.elements / 128) + "KB";
                         });

TEST(GreyFast, PairsOfMessagesDoNotHideALongPath) {
  constexpr Network kFast{4, 125'000'000};
  const TimeNs lost = duration(kFast, [](Fabric& f, SimNic& nic) { f.pull(nic); });
  const TimeNs late =
      duration(kFast, [](Fabric& f, SimNic& nic) { f.delay(nic, 5 * kMillisecond); });
  EXPECT_LT(100 * late, 103 * lost);
}

// Losses on a bad path must not delay the detection of the next loss there.
TEST(GreyLoss, HoldsUpNoOperationForLong) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  options.rate_bytes_per_s = 31'250'000;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  AllReduceJob before(cluster, 8 * 1024);
  before.start(100);
  run(cluster, before, 20 * kSecond);
  cluster.fabric().lose(cluster.nic(1, 2), 10'000);
  AllReduceJob job(cluster, 8 * 1024);
  job.start(1200);
  run(cluster, job, 60 * kSecond);
  EXPECT_LT(job.longest(), 15 * kMillisecond);
}

}  // namespace
}  // namespace r2ccl::sim
