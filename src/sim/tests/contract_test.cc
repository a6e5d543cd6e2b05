// The rules of docs/tuning.md that carry out the contract of paths and links: each has a job that
// fails without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

int64_t events_to(Cluster& cluster, int rank, PathPhase phase) {
  return std::ranges::count(cluster.node(rank).events, phase, &PathEvent::to);
}

// Its acknowledgements wait in its sockets, and are late by the stop alone.
TEST(Contract, ARankThatWasStoppedSuspectsNoPath) {
  ClusterOptions options;
  options.hosts = 3;
  options.nics = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  AllReduceJob job(cluster, 256 * 1024);
  job.start(80);
  for (int i = 0; i < 30; ++i) {
    cluster.world().run_for(23 * kMillisecond);
    cluster.world().stop(cluster.node(0).actor);
    cluster.world().run_for(20 * kMillisecond);
    cluster.world().resume(cluster.node(0).actor);
  }
  run(cluster, job, 30 * kSecond);
  EXPECT_EQ(events_to(cluster, 0, PathPhase::suspect), 0);
}

// An outage that is shorter than the time for which the last path is given up costs no connection.
// Between two outages TCP has the time to retransmit what the first has swallowed.
TEST(Contract, TheLastPathSurvivesAShortOutage) {
  ClusterOptions options;
  options.nics = 1;
  options.management = false;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  AllReduceJob job(cluster, 1024 * 1024);
  job.start(100);
  for (int i = 0; i < 5; ++i) {
    cluster.world().run_for(700 * kMillisecond);
    cluster.fabric().hole(cluster.nic(1, 0));
    cluster.world().run_for(200 * kMillisecond);
    cluster.fabric().fix(cluster.nic(1, 0));
  }
  run(cluster, job, 60 * kSecond);
  for (const int rank : {0, 1}) EXPECT_EQ(events_to(cluster, rank, PathPhase::down), 0);
}

// Its NIC has gone and returned three times in a minute, so it may do so again.
TEST(Contract, APathThatFlapsIsHeldBack) {
  Cluster cluster(ClusterOptions{});
  ASSERT_TRUE(cluster.connect());
  constexpr int kFlaps = 10;
  for (int i = 0; i < kFlaps; ++i) {
    cluster.fabric().pull(cluster.nic(1, 0));
    cluster.world().run_for(200 * kMillisecond);
    cluster.fabric().fix(cluster.nic(1, 0));
    cluster.world().run_for(800 * kMillisecond);
  }
  EXPECT_LE(events_to(cluster, 0, PathPhase::down), kFlaps / 2 + 1);
  EXPECT_TRUE(cluster.world().run_until([&] { return cluster.all_paths_up(); },
                                        cluster.now() + 40 * kSecond))
      << "not for ever";
}

// The peer is the first to miss something on a path, and this end has sent nothing there.
TEST(Contract, AMessageSparesAPathThatThePeerSuspects) {
  ClusterOptions options;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  std::vector<std::byte> stream(4 * 1024 * 1024);
  std::vector<std::byte> received(stream.size());
  bool streamed = false;
  cluster.node(0).runtime->start(Operation::receive(Rank(1), received, DataType::uint8,
                                                    [&](const Status&) { streamed = true; }));
  cluster.node(1).runtime->start(
      Operation::send(Rank(0), stream, DataType::uint8, [](const Status&) {}));
  cluster.wake_all();
  cluster.world().run_for(10 * kMillisecond);
  cluster.fabric().hole(cluster.nic(1, 0));
  const auto suspected = [&] { return events_to(cluster, 1, PathPhase::suspect) > 0; };
  ASSERT_TRUE(cluster.world().run_until(suspected, cluster.now() + kSecond));
  cluster.world().run_for(2 * kMillisecond);  // the peer's report comes
  std::vector<std::byte> answer(4 * 1024, std::byte{7});
  std::vector<std::byte> answered(answer.size());
  for (int i = 0; i < 4; ++i) {
    bool there = false;
    const TimeNs began = cluster.now();
    cluster.node(1).runtime->start(Operation::receive(Rank(0), answered, DataType::uint8,
                                                      [&](const Status&) { there = true; }));
    cluster.node(0).runtime->start(
        Operation::send(Rank(1), answer, DataType::uint8, [](const Status&) {}));
    cluster.wake_all();
    ASSERT_TRUE(cluster.world().run_until([&] { return there; }, began + kSecond));
    EXPECT_LT(cluster.now() - began, 3 * kMillisecond) << i;
    EXPECT_EQ(answered, answer);
  }
  EXPECT_TRUE(cluster.world().run_until([&] { return streamed; }, cluster.now() + 10 * kSecond));
}

}  // namespace
}  // namespace r2ccl::sim
