// NICs behind a shaper with a token bucket, as in clouds and the lab. A burst at many times the
// rate is no reason to leave other NICs idle, and a slow NIC whose queue drops packets is not
// silent.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"
#include "sim/fabric/random.h"

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

// Returns the number of operations that end within `time`.
size_t operations_in(Cluster& cluster, const AllReduceJob& job, TimeNs time) {
  const auto ended = [&] {
    return std::ranges::count_if(job.operations(),
                                 [](const AllReduceJob::Run& each) { return each.ended > 0; });
  };
  const auto before = ended();
  cluster.world().run_for(time);
  return static_cast<size_t>(ended() - before);
}

// A NIC that comes back passes a burst at first, beside which all other NICs look slow.
TEST(Shaped, ANicThatReturnsIsUsedAgainWithinASecondAndLeavesNoOtherIdle) {
  constexpr uint64_t kRate = 9'375'000;  // of `r2ccl demo` on a slow machine
  constexpr NicFaults kShaper = {
      .rate_bytes_per_s = kRate, .burst_bytes = 66'000, .port_bytes = kRate / 20};
  NicFaults pulled = kShaper;
  pulled.pulled = true;
  NicFaults slow = kShaper;
  slow.rate_bytes_per_s /= 10;
  slow.port_bytes /= 10;
  ClusterOptions options;
  options.hosts = kHosts;
  options.nics = kNics;
  options.rate_bytes_per_s = kBuilt;
  options.world.network.stream.segment_bytes = 1448;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (int host = 0; host < kHosts; ++host) {
    for (int k = 0; k < kNics; ++k) cluster.fabric().set_faults(cluster.nic(host, k), kShaper);
  }
  AllReduceJob job(cluster, 1024 * 1024 / sizeof(int64_t));
  job.start(1'000);
  operations_in(cluster, job, kSecond);
  const size_t before = operations_in(cluster, job, 2 * kSecond) / 2;
  for (int i = 0; i < 4; ++i) {
    SimNic& nic = cluster.nic((i + 1) % kHosts, (i + 2) % kNics);
    cluster.fabric().set_faults(nic, i % 2 == 0 ? pulled : slow);
    operations_in(cluster, job, 4 * kSecond);
    cluster.fabric().set_faults(nic, kShaper);
    operations_in(cluster, job, kSecond);
    for (int second = 1; second < 3; ++second) {
      EXPECT_GE(operations_in(cluster, job, kSecond), before - before / 10) << i << " " << second;
    }
    operations_in(cluster, job, 3 * kSecond);
  }
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.wrong(), 0u);
  job.abandon();
}

// Every port drops what its queue does not hold, and the queue of one NIC holds 10 ms of a tenth of
// the rate. Ranks stop for some milliseconds, as on a machine with fewer processors than ranks.
class SlowNic : public testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    ClusterOptions options;
    options.seed = GetParam();
    options.hosts = kHosts;
    options.nics = kNics;
    options.rate_bytes_per_s = kShaped;
    options.world.network.stream.segment_bytes = 1448;
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->connect());
    for (int host = 0; host < kHosts; ++host) {
      for (int k = 0; k < kNics; ++k) {
        cluster_->fabric().set_faults(cluster_->nic(host, k), {.port_bytes = kShaped / 50});
      }
    }
  }

  // Expects that the NIC is slow for a second and a half and goes on carrying, with no path lost.
  void expect_carries() {
    AllReduceJob job(*cluster_, 128 * 1024);
    job.start(1'000'000);
    cluster_->world().run_for(100 * kMillisecond);
    SimNic& nic = cluster_->nic(1, 3);
    cluster_->fabric().set_faults(
        nic, {.rate_bytes_per_s = kShaped / 10, .port_bytes = kShaped / 10 / 100});
    const TimeNs from = cluster_->now();
    Random random(GetParam());
    for (int part = 0; part < 3; ++part) {
      const uint64_t before = nic.bytes_received;
      const TimeNs end = cluster_->now() + 500 * kMillisecond;
      while (cluster_->now() < end) stop_one(random);
      EXPECT_GT(nic.bytes_received, before) << part;
    }
    job.abandon();
    for (int rank = 0; rank < kHosts; ++rank) expect_no_loss(rank, from);
  }

  std::unique_ptr<Cluster> cluster_;

 private:
  void stop_one(Random& random) {
    constexpr TimeNs kStop = 4 * kMillisecond;
    const auto rank = static_cast<int>(random.below(kHosts));
    cluster_->world().deschedule(cluster_->node(rank).actor, kStop);
    cluster_->world().run_for(static_cast<TimeNs>(random.below(4 * kStop)));
  }
  void expect_no_loss(int rank, TimeNs from) {
    for (const PathEvent& event : cluster_->node(rank).events) {
      const bool lost = event.at >= from && event.to == PathPhase::down;
      EXPECT_FALSE(lost) << rank << " to " << event.peer.value() << ": " << event.why << ", after "
                         << (event.at - from) / kMillisecond << " ms";
    }
  }
};

TEST_P(SlowNic, IsNotSilentWhileRanksStop) {
  expect_carries();
}

// The full queue drops the packet with which a rank asks the peer's kernel by a new connection.
TEST_P(SlowNic, IsNotSilentWhileNoNewConnectionIsAnswered) {
  cluster_->fabric().on_open(
      [this](uint64_t flow) { cluster_->fabric().cut_flow(flow, 0, 0, CutKind::silent); });
  expect_carries();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SlowNic, testing::Range<uint64_t>(2, 5));

}  // namespace
}  // namespace r2ccl::sim
