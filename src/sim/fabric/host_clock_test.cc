// Machines that sleep, with clocks that sleep too, and clocks that step, in the middle of a job. No
// path fails, no rank is given up, and every element is right.
#include "sim/fabric/host_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

constexpr int kHosts = 4;
constexpr TimeNs kClockStep = 1000 * kSecond;  // longer than the cut-off
constexpr int kReadingsMax = 40;               // readings of a clock, in some turns

ClusterOptions four_hosts(uint64_t seed) {
  ClusterOptions options;
  options.seed = seed;
  options.hosts = kHosts;
  return options;
}

void expect_nobody_blamed(Cluster& cluster) {
  for (int rank = 0; rank < kHosts; ++rank) {
    for (const PathEvent& event : cluster.node(rank).events) {
      EXPECT_NE(event.to, PathPhase::down) << "rank " << rank << ": " << event.why;
    }
    EXPECT_TRUE(cluster.node(rank).ends.empty());
    EXPECT_TRUE(cluster.node(rank).fault_reporter().verdicts().empty());
  }
}

void expect_right(Cluster& cluster, AllReduceJob& job, TimeNs limit) {
  run(cluster, job, limit);
  expect_nobody_blamed(cluster);
}

// Steps the clock in one of the next turns of the rank.
void step_clock(Cluster& cluster, int rank, Random& random) {
  const int readings = 1 + static_cast<int>(random.below(kReadingsMax));
  cluster.node(rank).clock->step_clock(kClockStep, readings);
  cluster.world().run_for(static_cast<TimeNs>(random.below(10)) * kMillisecond);
}

// No clock step counts as a round trip, and a round trip that a stop made long is measured again
// where the stream is in use: a ring uses the links of neighbours.
void expect_short_round_trips(Cluster& cluster) {
  std::vector<TimeNs> began;
  for (int rank = 0; rank < kHosts; ++rank) began.push_back(cluster.node(rank).clock->now());
  AllReduceJob job(cluster, 64 * 1024);
  job.start(100);
  cluster.world().run_for(3 * kSecond);
  EXPECT_TRUE(job.finished());
  for (int rank = 0; rank < kHosts; ++rank) {
    for (int peer = 0; peer < kHosts; ++peer) {
      if (peer == rank) continue;
      for (const auto& path : cluster.node(rank).engine().link(Rank(peer))->paths()) {
        if (path->health.last_ping_at < began[static_cast<size_t>(rank)]) continue;
        EXPECT_LT(path->health.round_trip, 100 * kMillisecond) << path->spec.local_name;
      }
    }
  }
}

TEST(HostClock, ASuspensionThatTheClocksOfTwoHostsDoNotCountBlamesNoNic) {
  Cluster cluster(four_hosts(1));
  ASSERT_TRUE(cluster.connect());
  AllReduceJob job(cluster, 64 * 1024);
  job.start(40);
  for (const TimeNs pause : {300 * kMillisecond, 3 * kSecond, 60 * kSecond}) {
    cluster.world().run_for(20 * kMillisecond);
    for (const int rank : {0, 2}) cluster.world().stop(cluster.node(rank).actor);
    cluster.world().run_for(pause);
    for (const int rank : {0, 2}) {
      cluster.node(rank).clock->set_back(pause);
      cluster.world().resume(cluster.node(rank).actor);
    }
  }
  EXPECT_FALSE(job.finished());
  expect_right(cluster, job, 10 * kSecond);
}

TEST(HostClock, ClockStepsAnywhereInATurnBlameNoNic) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(four_hosts(seed));
    ASSERT_TRUE(cluster.connect());
    Random random(seed);
    AllReduceJob job(cluster, 64 * 1024);
    job.start(40);
    for (int i = 0; i < 100 && !job.finished(); ++i) {
      step_clock(cluster, static_cast<int>(random.below(kHosts)), random);
    }
    expect_right(cluster, job, 10 * kSecond);
    expect_short_round_trips(cluster);
  }
}

// The probes of third hosts are not late either. (A step of the localising rank's own clock would
// split one fault into two.)
TEST(HostClock, ClockStepsOfThirdHostsBlurNoVerdict) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(four_hosts(seed));
    ASSERT_TRUE(cluster.connect());
    Random random(seed);
    AllReduceJob job(cluster, 64 * 1024);
    job.start(40);
    cluster.world().run_for(20 * kMillisecond);
    cluster.fabric().hole(cluster.nic(3, 1));
    for (int i = 0; i < 60; ++i) step_clock(cluster, 1 + static_cast<int>(random.below(2)), random);
    cluster.world().run_for(kSecond);
    for (int rank = 0; rank < kHosts; ++rank) {
      const auto& verdicts = cluster.node(rank).fault_reporter().verdicts();
      ASSERT_EQ(verdicts.size(), 1u) << "rank " << rank;
      EXPECT_EQ(verdicts[0].scope, Scope::nic);
      EXPECT_EQ(verdicts[0].faulty, (NicName{3, "nic1"}));
    }
  }
}

}  // namespace
}  // namespace r2ccl::sim
