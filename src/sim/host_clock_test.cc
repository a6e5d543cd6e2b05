// Machines that sleep, with clocks that sleep too, and clocks that leap, in the middle of a job: no
// path fails, nobody is given up, and every element is right.
#include "sim/host_clock.h"

#include <gtest/gtest.h>

#include "sim/all_reduce_job.h"
#include "sim/cluster.h"
#include "sim/random.h"

namespace r2ccl {
namespace {

constexpr int kHosts = 4;
constexpr TimeNs kLeap = 1000 * kSecond;  // more than the cut-off
constexpr int kLooksMax = 40;             // of a clock, in some turns

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
    EXPECT_TRUE(cluster.node(rank).incidents->verdicts().empty());
  }
}

void expect_right(Cluster& cluster, AllReduceJob& job, TimeNs limit) {
  ASSERT_TRUE(cluster.world().run_until([&] { return job.finished(); }, cluster.now() + limit));
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.wrong(), 0u);
  EXPECT_GT(job.checked(), 0u);
  expect_nobody_blamed(cluster);
}

TEST(HostClock, ASuspensionThatTheClocksOfTwoHostsDoNotCountBlamesNobody) {
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

TEST(HostClock, LeapsAnywhereInATurnBlameNobody) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(four_hosts(seed));
    ASSERT_TRUE(cluster.connect());
    Random dice(seed);
    AllReduceJob job(cluster, 64 * 1024);
    job.start(40);
    for (int i = 0; i < 100 && !job.finished(); ++i) {
      const int rank = static_cast<int>(dice.below(kHosts));
      const int looks = 1 + static_cast<int>(dice.below(kLooksMax));
      cluster.node(rank).clock->leap(kLeap, looks);
      cluster.world().run_for(static_cast<TimeNs>(dice.below(10)) * kMillisecond);
    }
    expect_right(cluster, job, 10 * kSecond);
  }
}

}  // namespace
}  // namespace r2ccl
