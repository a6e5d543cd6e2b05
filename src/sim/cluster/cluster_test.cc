// The main job on the fabric: AllReduce over several hosts and NICs goes on with the right bits
// through every fault of a path.
#include "sim/cluster/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "sim/cluster/finished_job.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

using Job = AllReduceJob;

TEST(Cluster, ConnectsEveryPath) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  Cluster cluster(options);
  EXPECT_TRUE(cluster.connect());
}

TEST(Cluster, AllReduceWithoutFaultsReachesLineRate) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 2 * 1024 * 1024);  // 16 MB
  job.start(3);
  run(cluster, job, 20 * kSecond);
  const double bus = 16.0 * 1048576 * 1.5 / (static_cast<double>(job.last_duration()) / 1e9);
  EXPECT_GT(bus, 0.93 * 4 * 31'250'000) << bus;
}

struct Fault {
  const char* name;
  void (Fabric::*begin)(SimNic&);
};

class ClusterFault : public testing::TestWithParam<Fault> {};

TEST_P(ClusterFault, InTheMiddleOfAnAllReduceCostsLittleAndNoElement) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 128 * 1024);  // 1 MB
  job.start(60);
  cluster.fabric().at(cluster.now() + 203 * kMillisecond,
                      [&] { (cluster.fabric().*GetParam().begin)(cluster.nic(1, 2)); });
  cluster.fabric().at(cluster.now() + 500 * kMillisecond,
                      [&] { cluster.fabric().fix(cluster.nic(1, 2)); });
  run(cluster, job, 20 * kSecond);
  EXPECT_LT(job.longest(), 100 * kMillisecond);
  EXPECT_TRUE(cluster.connect()) << "the healed NIC comes back";
}

INSTANTIATE_TEST_SUITE_P(Kinds, ClusterFault,
                         testing::Values(Fault{"down", &Fabric::down}, Fault{"pull", &Fabric::pull},
                                         Fault{"hole", &Fabric::hole},
                                         Fault{"hole_tx", &Fabric::hole_tx},
                                         Fault{"hole_rx", &Fabric::hole_rx}),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST(Cluster, AKilledRankIsCalledDeadByAllOthers) {
  ClusterOptions options;
  options.hosts = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  cluster.world().kill(*cluster.node(1).host);
  const bool told = cluster.world().run_until(
      [&] { return !cluster.node(0).ends.empty() && !cluster.node(2).ends.empty(); },
      cluster.now() + 2 * kSecond);
  ASSERT_TRUE(told);
  EXPECT_EQ(cluster.node(0).ends[0], std::make_pair(Rank(1), PeerEnd::dead));
  EXPECT_EQ(cluster.node(2).ends[0], std::make_pair(Rank(1), PeerEnd::dead));
}

TEST(Cluster, AStoppedRankIsWaitedForWithoutAVerdict) {
  ClusterOptions options;
  options.hosts = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (int rank = 0; rank < 3; ++rank) cluster.node(rank).events.clear();
  Job job(cluster, 64 * 1024);
  job.start(20);
  cluster.fabric().at(cluster.now() + 20 * kMillisecond,
                      [&] { cluster.world().stop(cluster.node(1).actor); });
  cluster.fabric().at(cluster.now() + 10 * kSecond,
                      [&] { cluster.world().resume(cluster.node(1).actor); });
  run(cluster, job, 30 * kSecond);
  for (int rank = 0; rank < 3; ++rank) {
    for (const PathEvent& event : cluster.node(rank).events) {
      EXPECT_NE(event.to, PathPhase::down) << rank << ' ' << event.why;
    }
    EXPECT_TRUE(cluster.node(rank).ends.empty());
  }
}

TEST(Cluster, WhoWaitsForARankThatIsStoppedForLongSleepsMeanwhile) {
  ClusterOptions options;
  options.hosts = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(20);
  cluster.world().run_for(20 * kMillisecond);
  cluster.world().stop(cluster.node(1).actor);
  cluster.world().run_for(100 * kSecond);  // until no more pings fit into its control streams
  for (const int rank : {0, 2}) EXPECT_GT(cluster.node(rank).next_timeout(), cluster.now());
  cluster.world().resume(cluster.node(1).actor);
  run(cluster, job, 10 * kSecond);
}

// A firewall forgets its flows. Both kernels keep connections that carry nothing, and no other path
// shows that the peer lives. Until a new connection succeeds, the peer looks stopped.
TEST(Cluster, OnlyConnectionsThatWentDeadAreReplacedAndAStoppedPeersAreNot) {
  ClusterOptions options;
  options.nics = 1;
  options.management = false;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(60);
  cluster.world().run_for(20 * kMillisecond);
  cluster.world().stop(cluster.node(1).actor);
  cluster.world().run_for(20 * kSecond);
  for (int rank = 0; rank < 2; ++rank) cluster.node(rank).events.clear();
  cluster.world().resume(cluster.node(1).actor);
  cluster.world().run_for(20 * kMillisecond);
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(cluster.node(rank).events.empty());
  for (const FlowInfo& flow : cluster.fabric().flows()) {
    cluster.fabric().cut_flow(flow.id, 0, flow.delivered_from, CutKind::silent);
  }
  run(cluster, job, 20 * kSecond);
  EXPECT_LT(job.longest(), 25 * kSecond);
}

TEST(Cluster, TwoNicsOfOneHostAtOnceLeaveTheOthers) {
  ClusterOptions options;
  options.hosts = 3;
  options.nics = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(60);
  cluster.fabric().at(cluster.now() + 50 * kMillisecond, [&] {
    cluster.fabric().hole(cluster.nic(2, 0));
    cluster.fabric().down(cluster.nic(2, 3));
  });
  run(cluster, job, 20 * kSecond);
  EXPECT_LT(job.longest(), 200 * kMillisecond);
}

// In a ring, ranks 1 and 3 exchange no data. Yet their path over the broken NIC is the evidence
// that distinguishes this NIC from the NIC at the other end of a busy path.
TEST(Cluster, APathThatCarriesNothingIsLostWithItsNicAsSoonAsTheOthers) {
  ClusterOptions options;
  options.hosts = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (int rank = 0; rank < 4; ++rank) cluster.node(rank).events.clear();
  Job job(cluster, 128 * 1024);
  job.start(40);
  cluster.world().run_for(100 * kMillisecond);
  cluster.fabric().hole_rx(cluster.nic(1, 1));
  cluster.world().run_for(250 * kMillisecond);
  for (const int rank : {0, 2, 3}) {
    EXPECT_TRUE(std::ranges::any_of(cluster.node(rank).events, [](const PathEvent& event) {
      return event.peer == Rank(1) && event.to == PathPhase::down;
    })) << rank;
  }
  run(cluster, job, 20 * kSecond);
}

TEST(Cluster, AFlappingNicComesBackEachTime) {
  ClusterOptions options;
  options.hosts = 3;
  options.rate_bytes_per_s = 3'125'000;  // a low rate, so that few bytes fill the time of this test
  options.link.damping = false;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Job job(cluster, 64 * 1024);
  job.start(90);
  int returns = 0;
  for (int i = 0; i < 3; ++i) {
    const TimeNs start = cluster.now() + (i * 3000 + 100) * kMillisecond;
    cluster.fabric().at(start, [&] { cluster.fabric().pull(cluster.nic(0, 1)); });
    cluster.fabric().at(start + 1500 * kMillisecond,
                        [&] { cluster.fabric().fix(cluster.nic(0, 1)); });
    cluster.fabric().at(start + 2500 * kMillisecond,
                        [&] { returns += cluster.all_paths_up() ? 1 : 0; });
  }
  run(cluster, job, 60 * kSecond);
  EXPECT_EQ(returns, 3);
}

// Every rank is preempted for up to 8 ms, once in 10 ms on average. The paths are not the cause of
// late acknowledgements, so they must stay in use. With windows that allow for no late
// acknowledgement the job takes 2.7 times as long as on the line.
TEST(Cluster, ABusyMachineKeepsItsPathsBusy) {
  ClusterOptions options;
  options.hosts = 4;
  options.nics = 4;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  Random random(1);
  std::function<void(int)> preempt = [&](int rank) {
    cluster.fabric().at(cluster.now() + random.below(20'000) * kMicrosecond, [&, rank] {
      cluster.world().deschedule(cluster.node(rank).actor, random.below(8'000) * kMicrosecond);
      preempt(rank);
    });
  };
  for (int rank = 0; rank < 4; ++rank) preempt(rank);
  Job job(cluster, 1 << 20);
  job.start(4);
  const TimeNs began = cluster.now();
  run(cluster, job, 20 * kSecond);
  // At the line rate of four NICs an operation takes 8 MB * 3/2 / 125 MB/s = 100.7 ms.
  const double mean = static_cast<double>(cluster.now() - began) / 4;
  EXPECT_LT(mean, 100.7e6 / 0.6);
}

TEST(Cluster, DelayedPathsOfFiftyMillisecondsStillCarryTheJob) {
  ClusterOptions options;
  options.hosts = 2;
  Cluster cluster(options);
  for (int rank = 0; rank < 2; ++rank) {
    for (int k = 0; k < options.nics; ++k) {
      cluster.fabric().delay(cluster.nic(rank, k), 12 * kMillisecond);
    }
  }
  ASSERT_TRUE(cluster.connect());
  for (int rank = 0; rank < 2; ++rank) cluster.node(rank).events.clear();
  Job job(cluster, 64 * 1024);
  job.start(20);
  run(cluster, job, 30 * kSecond);
  for (int rank = 0; rank < 2; ++rank) {
    for (const PathEvent& event : cluster.node(rank).events) {
      EXPECT_NE(event.to, PathPhase::down) << event.why;
    }
  }
}

// Cuts the data connection between two ranks after every byte of a chunk's frame in turn.
TEST(Cluster, APathKilledAtEveryByteOfAChunkLosesNothing) {
  constexpr uint64_t kHead = kDataHeaderBytes + 256;  // with the carried state
  constexpr uint64_t kFrame = kHead + 4096;
  for (uint64_t cut = 0; cut <= kFrame; cut += (cut < kHead || cut > kFrame - 64) ? 1 : 61) {
    ClusterOptions options;
    options.hosts = 2;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    const auto flows = cluster.fabric().flows();
    for (const FlowInfo& flow : flows) {
      if (!flow.established || flow.from != &cluster.nic(0, 0)) continue;
      cluster.fabric().cut_flow(flow.id, 0, flow.delivered_from + cut, CutKind::reset);
    }
    Job job(cluster, 4096);  // halving-doubling: messages of 16 KB, chunks of 8 KB and less
    job.start(3);
    run(cluster, job, 5 * kSecond);
    ASSERT_FALSE(testing::Test::HasFailure()) << "cut at byte " << cut;
  }
}

TEST(Cluster, AnOperationThatFailsAnywhereIsSurvived) {
  for (uint64_t n = 1; n <= 200; ++n) {
    ClusterOptions options;
    options.hosts = 2;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    cluster.node(0).host->fail_operation(n, ECONNRESET);
    Job job(cluster, 8192);
    job.start(4);
    run(cluster, job, 10 * kSecond);
    ASSERT_FALSE(testing::Test::HasFailure()) << "operation " << n;
  }
}

TEST(Cluster, NicsThatCannotBeReadAtOnceAreReadLater) {
  ClusterOptions options;
  options.hosts = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  auto& node = cluster.node(1);
  node.events.clear();
  node.host->fail_operation(1, EMFILE);
  cluster.fabric().pull(cluster.nic(1, 0));
  const auto knows = [&] {
    return std::ranges::any_of(node.events, [](const PathEvent& event) {
      return event.local_nic == NicId(0) && event.cause == DownCause::carrier_lost;
    });
  };
  EXPECT_TRUE(cluster.world().run_until(knows, cluster.now() + 400 * kMillisecond));
}

// No carrier event shows the end of a black hole. The rare connection attempts do.
TEST(Cluster, ANicThatWasGoneForADayIsUsedWithinSecondsOfItsReturn) {
  ClusterOptions options;
  options.hosts = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  cluster.fabric().hole(cluster.nic(1, 0));
  cluster.world().run_for(24 * 3600 * kSecond);
  ASSERT_FALSE(cluster.all_paths_up());
  cluster.fabric().fix(cluster.nic(1, 0));
  EXPECT_TRUE(cluster.world().run_until([&] { return cluster.all_paths_up(); },
                                        cluster.now() + 6 * kSecond));
  Job job(cluster, 8192);
  job.start(3);
  run(cluster, job, kSecond);
}

// The lower rank opens paths, and its attempts are rare by then: the higher one calls it. A port
// may forward later than it has a carrier.
TEST(Cluster, ACableThatIsPutBackAfterADayIsUsedAtOnce) {
  for (const TimeNs forwards_after : {TimeNs{0}, 100 * kMillisecond, 2 * kSecond}) {
    for (const int pulled : {0, 1}) {
      ClusterOptions options;
      options.hosts = 2;
      Cluster cluster(options);
      ASSERT_TRUE(cluster.connect());
      SimNic& nic = cluster.nic(pulled, 0);
      cluster.fabric().pull(nic);
      cluster.world().run_for(24 * 3600 * kSecond);
      ASSERT_FALSE(cluster.all_paths_up());
      cluster.fabric().fix(nic);
      if (forwards_after > 0) cluster.fabric().hole(nic);
      cluster.world().run_for(forwards_after);
      cluster.fabric().fix(nic);
      // One dial in four waits for an answer for half a second.
      const TimeNs within = (forwards_after == 0 ? 50 : 800) * kMillisecond;
      EXPECT_TRUE(
          cluster.world().run_until([&] { return cluster.all_paths_up(); }, cluster.now() + within))
          << "rank " << pulled << ", " << forwards_after;
    }
  }
}

TEST(Cluster, APathWhoseEndsHealMinutesApartIsUsedSoonAfterTheSecond) {
  ClusterOptions options;
  options.hosts = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (const int rank : {0, 1}) cluster.fabric().hole(cluster.nic(rank, 0));
  cluster.world().run_for(600 * kSecond);
  cluster.fabric().fix(cluster.nic(1, 0));
  cluster.world().run_for(420 * kSecond);
  ASSERT_FALSE(cluster.all_paths_up());
  cluster.fabric().fix(cluster.nic(0, 0));
  EXPECT_TRUE(cluster.world().run_until([&] { return cluster.all_paths_up(); },
                                        cluster.now() + 6 * kSecond));
}

// The address changes under the only path, with the link up: no end of a connection is told, and
// perhaps no change of a NIC either. The job waits for as long as the host has no address.
void expect_goes_on_with_another_address(int moved, bool told, TimeNs without) {
  const std::string where = "host " + std::to_string(moved) + (told ? ", told" : ", untold");
  ClusterOptions options;
  options.hosts = 2;
  options.nics = 1;
  options.management = false;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  if (!told) cluster.node(moved).host->lose_nic_events();
  Job job(cluster, 8192);
  job.start(1000);
  cluster.world().run_for(20 * kMillisecond);
  ASSERT_FALSE(job.finished());
  SimNic& nic = cluster.nic(moved, 0);
  Address address = nic.addresses.front();
  address.bytes[3] = 77;
  cluster.fabric().set_addresses(nic, {});
  cluster.world().run_for(without);
  cluster.fabric().set_addresses(nic, {address});
  EXPECT_TRUE(
      cluster.world().run_until([&] { return cluster.all_paths_up(); }, cluster.now() + kSecond))
      << where;
  run(cluster, job, 10 * kSecond);
  cluster.world().run_for(2 * kSecond);
  for (const int rank : {0, 1}) {
    const auto& verdicts = cluster.node(rank).fault_reporter().verdicts();
    EXPECT_EQ(std::ranges::count(verdicts, DownCause::address_lost, &Verdict::kind), 1) << where;
    for (const Verdict& verdict : verdicts) {
      if (verdict.scope == Scope::pair) continue;  // its connection, which was opened anew
      EXPECT_EQ(verdict.faulty.host, static_cast<uint32_t>(moved)) << where;
      EXPECT_EQ(verdict.kind, DownCause::address_lost) << where;
    }
  }
}

TEST(Cluster, AHostWhoseOnlyNicGetsAnotherAddressGoesOnWithinASecond) {
  for (const int moved : {0, 1}) {
    for (const bool told : {true, false}) {
      expect_goes_on_with_another_address(moved, told, 0);
      expect_goes_on_with_another_address(moved, told, 3 * kSecond);
    }
  }
}

// Both ends find that nothing passes, at the same time and for the same reason.
TEST(Cluster, TheBoundOfAHostWithoutAnAddressHoldsOnBothEnds) {
  for (const int moved : {0, 1}) {
    ClusterOptions options;
    options.hosts = 2;
    options.nics = 1;
    options.management = false;
    options.link.cutoff = 5 * kSecond;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    Job job(cluster, 8192);
    job.start(1000);
    cluster.world().run_for(20 * kMillisecond);
    job.abandon();
    cluster.fabric().set_addresses(cluster.nic(moved, 0), {});
    cluster.world().run_for(options.link.cutoff + kSecond);
    for (const int rank : {0, 1}) {
      EXPECT_FALSE(cluster.node(rank).runtime->failure().ok()) << moved << ", rank " << rank;
      for (const Verdict& verdict : cluster.node(rank).fault_reporter().verdicts()) {
        EXPECT_EQ(verdict.faulty.host, static_cast<uint32_t>(moved)) << ", rank " << rank;
      }
    }
  }
}

// No path is left to tell the peer the new address, and the peer, which opens the paths, dials the
// old address for ever.
TEST(Cluster, AHostWhoseOnlyNicComesBackWithAnotherAddressCallsItsPeers) {
  for (const int moved : {0, 1}) {
    ClusterOptions options;
    options.hosts = 2;
    options.nics = 1;
    options.management = false;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    Job job(cluster, 8192);
    job.start(20);
    SimNic& nic = cluster.nic(moved, 0);
    cluster.fabric().at(cluster.now() + 5 * kMillisecond, [&] { cluster.fabric().down(nic); });
    cluster.fabric().at(cluster.now() + 400 * kMillisecond, [&] {
      Address address = nic.addresses.front();
      address.bytes[3] = 77;
      cluster.fabric().set_addresses(nic, {address});
      cluster.fabric().fix(nic);
    });
    run(cluster, job, 5 * kSecond);
    EXPECT_GT(cluster.now(), 400 * kMillisecond);
  }
}

TEST(Cluster, TheSameSeedGivesTheSameRun) {
  const auto hash = [](uint64_t seed) {
    ClusterOptions options;
    options.seed = seed;
    options.hosts = 3;
    Cluster cluster(options);
    EXPECT_TRUE(cluster.connect());
    Job job(cluster, 32 * 1024);
    job.start(5);
    cluster.fabric().at(cluster.now() + 5 * kMillisecond,
                        [&] { cluster.fabric().hole(cluster.nic(1, 1)); });
    EXPECT_TRUE(cluster.world().run_until([&] { return job.finished(); }, cluster.now() + kSecond));
    return cluster.world().trace_hash();
  };
  EXPECT_EQ(hash(7), hash(7));
}

}  // namespace
}  // namespace r2ccl::sim
