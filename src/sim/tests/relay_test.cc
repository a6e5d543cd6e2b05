// Two hosts that have lost different rails reach each other through a third one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/rank_status.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

using Job = AllReduceJob;

ClusterOptions options_of(int hosts, bool management = false) {
  ClusterOptions options;
  options.hosts = hosts;
  options.management = management;
  options.link.cutoff = 4 * kSecond;
  return options;
}

class Relay : public testing::Test {
 protected:
  void connect(const ClusterOptions& options) {
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->connect());
  }
  Cluster& cluster() { return *cluster_; }
  // Host 0 loses rail 0, host 1 loses rail 1.
  void lose_rails() {
    cluster().fabric().pull(cluster().nic(0, 0));
    cluster().fabric().pull(cluster().nic(1, 1));
  }
  // Null: the link has never had one.
  const Path* relay_path(int rank, int peer) {
    for (const Path* path : cluster().node(rank).engine().link(Rank(peer))->paths()) {
      if (path->spec.relay) return path;
    }
    return nullptr;
  }
  bool relay_up(int rank, int peer) {
    const Path* path = relay_path(rank, peer);
    return path != nullptr && path->state.usable();
  }
  size_t pipes(int rank) { return cluster().node(rank).engine().relays().size(); }
  // Returns the host that relays; -1: none.
  int relaying() {
    for (int rank = 0; rank < cluster().size(); ++rank) {
      if (!cluster().node(rank).left() && pipes(rank) > 0) return rank;
    }
    return -1;
  }
  bool within(TimeNs limit, const std::function<bool()>& done) {
    return cluster().world().run_until(done, cluster().now() + limit);
  }
  // Opens the relay path of hosts 0 and 1.
  void open_relay() {
    lose_rails();
    ASSERT_TRUE(within(2 * kSecond, [this] { return relay_up(0, 1) && relay_up(1, 0); }));
  }
  // The plans follow no view, so they use the pair that has lost its rails.
  void connect_on_demand(int hosts) {
    ClusterOptions options = options_of(hosts);
    options.data_at_start = false;
    options.views = false;
    connect(options);
  }
  // Stops rank 1 until rank 0 has sought another rank for their relay path.
  void stop_until_sought() {
    cluster().world().stop(cluster().node(1).actor);
    const Path& path = *relay_path(0, 1);
    const uint32_t dials = path.dials;
    ASSERT_TRUE(within(3 * kSecond, [&] { return path.dials > dials; }));
    ASSERT_TRUE(path.state.connected());
    cluster().world().run_for(5 * kMillisecond);
  }
  // Rank 1 runs again, and rank 0 hears it.
  void go_on() {
    cluster().world().resume(cluster().node(1).actor);
    cluster().world().run_for(5 * kMillisecond);
    EXPECT_FALSE(cluster().node(0).engine().link(Rank(1))->is_cut_off(cluster().now()));
  }
  void expect_nobody_ended() {
    for (int rank = 0; rank < cluster().size(); ++rank) {
      EXPECT_TRUE(cluster().node(rank).ends.empty()) << rank;
    }
  }
  // Requires that faults hit only these NICs.
  void expect_verdicts_only_of(const std::vector<NicName>& faulty) {
    for (int rank = 0; rank < cluster().size(); ++rank) {
      for (const Verdict& verdict : cluster().node(rank).fault_reporter().verdicts()) {
        EXPECT_TRUE(std::ranges::find(faulty, verdict.faulty) != faulty.end())
            << "h" << verdict.faulty.host << " " << verdict.faulty.nic;
      }
    }
  }

 private:
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Relay, TwoHostsWithoutACommonRailGoOnThroughAThird) {
  for (const bool management : {false, true}) {
    for (const int hosts : {3, 5}) {
      SCOPED_TRACE(hosts);
      connect(options_of(hosts, management));
      Job job(cluster(), 256 * 1024, Algorithm::direct);
      job.start(60);
      cluster().world().run_for(50 * kMillisecond);
      lose_rails();
      run(cluster(), job, 60 * kSecond);
      EXPECT_LT(job.longest(), 1500 * kMillisecond);
      expect_nobody_ended();
      EXPECT_TRUE(relay_up(0, 1));
      EXPECT_EQ(relay_path(0, 2), nullptr) << "host 2 reaches both";
      cluster().world().run_for(2 * kSecond);
      expect_verdicts_only_of({{0, "nic0"}, {1, "nic1"}});
    }
  }
}

TEST_F(Relay, ItsDataConnectionOpensWithTheFirstMessage) {
  ClusterOptions options = options_of(3);
  options.data_at_start = false;
  connect(options);
  open_relay();
  EXPECT_TRUE(relay_path(0, 1)->lacks_data());
  EXPECT_EQ(pipes(2), 1u);
  Job job(cluster(), 256 * 1024, Algorithm::direct);
  job.start(4);
  run(cluster(), job, 60 * kSecond);
  EXPECT_FALSE(relay_path(0, 1)->lacks_data());
  EXPECT_EQ(pipes(2), 2u);
  expect_nobody_ended();
}

// While the peer is stopped, the silent path seeks another rank. The peer goes on before it finds
// one, so the path's connection stays, and its data connection joins it.
TEST_F(Relay, ItsDataConnectionGoesByTheRankOfItsControlStream) {
  connect_on_demand(4);
  open_relay();
  const int first = relaying();
  const Path& path = *relay_path(0, 1);
  const Incarnation incarnation = path.state.incarnation();
  stop_until_sought();
  EXPECT_EQ(pipes(5 - first), 1u) << "the other one is asked";
  go_on();
  Job job(cluster(), 256 * 1024, Algorithm::direct);
  job.start(4);
  run(cluster(), job, 60 * kSecond);
  EXPECT_EQ(path.state.incarnation(), incarnation);
  EXPECT_EQ(pipes(first), 2u);
  EXPECT_EQ(pipes(5 - first), 0u);
  expect_nobody_ended();
}

// The same, but the link to the rank that relays has lost its own connections meanwhile, so that
// no rank is in reach.
TEST_F(Relay, ItsDataConnectionGoesByThatRankThoughASearchHasFoundNone) {
  connect_on_demand(3);
  const std::vector<FlowInfo> before = cluster().fabric().flows();
  open_relay();
  const Path& path = *relay_path(0, 1);
  const Incarnation incarnation = path.state.incarnation();
  const auto between = [this](const FlowInfo& flow) {
    return flow.from == &cluster().nic(0, 1) && flow.to == &cluster().nic(2, 1);
  };
  cluster().fabric().on_open(
      [this](uint64_t flow) { cluster().fabric().cut_flow(flow, 0, 1, CutKind::reset); });
  for (const FlowInfo& flow : before) {
    if (between(flow)) cluster().fabric().reset_flow(flow.id);
  }
  stop_until_sought();
  EXPECT_FALSE(cluster().node(0).engine().link(Rank(2))->ready());
  EXPECT_EQ(pipes(2), 1u);
  go_on();
  EXPECT_FALSE(cluster().node(0).engine().link(Rank(2))->ready());
  cluster().fabric().on_open([](uint64_t) {});
  Job job(cluster(), 256 * 1024, Algorithm::direct);
  job.start(4);
  run(cluster(), job, 60 * kSecond);
  EXPECT_EQ(path.state.incarnation(), incarnation);
  EXPECT_EQ(pipes(2), 2u);
  expect_nobody_ended();
}

// The rank that relays has read the frame, and cannot notice anything. The rank that it is for
// does, as soon as it runs again.
TEST_F(Relay, AChangedFrameIsNoticedByTheRankThatItIsFor) {
  connect(options_of(3));
  std::set<uint64_t> ordinary;
  for (const FlowInfo& flow : cluster().fabric().flows()) ordinary.insert(flow.id);
  open_relay();
  cluster().world().stop(cluster().node(1).actor);
  const auto is_of = [this](const SimNic* nic, int host) {
    return nic == &cluster().nic(host, 0) || nic == &cluster().nic(host, 1);
  };
  const Tamper tamper{.data = false};
  for (const FlowInfo& flow : cluster().fabric().flows()) {
    if (ordinary.contains(flow.id)) continue;
    if (is_of(flow.from, 0) && is_of(flow.to, 2)) cluster().fabric().tamper(flow.id, 0, tamper);
    if (is_of(flow.from, 2) && is_of(flow.to, 0)) cluster().fabric().tamper(flow.id, 1, tamper);
  }
  ASSERT_TRUE(within(3 * kSecond, [&] { return *tamper.done; }));
  cluster().world().run_for(1500 * kMillisecond);
  EXPECT_TRUE(relay_path(0, 1)->state.connected());
  EXPECT_EQ(cluster().fabric().unnoticed(), 0u) << "nobody has accepted it";
  cluster().world().resume(cluster().node(1).actor);
  const auto noticed = [this] {
    return std::ranges::any_of(cluster().node(1).events, [](const PathEvent& event) {
      return event.cause == DownCause::corrupted;
    });
  };
  EXPECT_TRUE(within(kSecond, noticed));
  cluster().world().run_for(2 * kSecond);
  EXPECT_EQ(cluster().fabric().unnoticed(), 0u);
}

// Rank 0 opens the path, so it knows the rank; rank 1 knows the host.
TEST_F(Relay, TheStatusNamesTheRankThatRelaysAndItsTraffic) {
  connect(options_of(3));
  open_relay();
  Job job(cluster(), 64 * 1024, Algorithm::direct);
  job.start(2);
  run(cluster(), job, 30 * kSecond);
  std::optional<std::string> answer;
  SimRank& asked = cluster().node(2);
  asked.in_turn = [&] {
    if (!answer) answer = asked.runtime->status().job_status();
  };
  asked.wake();
  ASSERT_TRUE(within(5 * kSecond, [&] { return answer.has_value(); }));
  asked.in_turn = nullptr;
  const auto tells = [&](const std::string& words, int rank, int peer) {
    const Path* path = relay_path(rank, peer);
    return answer->find("\"relays\":[{\"peer\":" + std::to_string(peer) + words +
                        ",\"tx_bytes\":" + std::to_string(path->total_bytes_sent()) +
                        ",\"rx_bytes\":" + std::to_string(path->total_bytes_received()) +
                        "}],\"relays_left_out\":0") != std::string::npos;
  };
  EXPECT_TRUE(tells(",\"via\":2,\"via_host\":\"h2\",\"state\":\"up\",\"opens\":true", 0, 1))
      << *answer;
  EXPECT_TRUE(tells(",\"via\":-1,\"via_host\":\"h2\",\"state\":\"up\",\"opens\":false", 1, 0))
      << *answer;
  EXPECT_NE(answer->find("\"relays\":[],"), std::string::npos) << "host 2 needs none";
}

// The proposer reaches every rank, so the plans follow.
TEST_F(Relay, RanksAgreeOnAViewThroughIt) {
  connect(options_of(4));
  open_relay();
  const auto agreed = [this] {
    for (int rank = 0; rank < cluster().size(); ++rank) {
      const ViewAgreement& agreement = cluster().node(rank).runtime->views()->agreement();
      const View& view = agreement.latest().view;
      if (!agreement.settled() || view.empty()) return false;
      if (view.hosts()[0][0].send > 0 || view.hosts()[1][1].send > 0) return false;
    }
    return true;
  };
  EXPECT_TRUE(within(3 * kSecond, agreed));
}

TEST_F(Relay, AnOrdinaryPathThatReturnsIsUsedAloneAndTheRelayEnds) {
  connect(options_of(3));
  Job job(cluster(), 64 * 1024, Algorithm::direct);
  open_relay();
  cluster().fabric().fix(cluster().nic(0, 0));
  const auto returned = [this] {
    const auto paths = cluster().node(0).engine().link(Rank(1))->paths();
    return paths[0]->state.usable();
  };
  ASSERT_TRUE(within(5 * kSecond, returned));
  cluster().world().run_for(10 * kMillisecond);
  ASSERT_TRUE(relay_up(0, 1)) << "it stands by for a while";
  const uint64_t before = relay_path(0, 1)->total_bytes_sent();
  job.start(20);
  run(cluster(), job, 10 * kSecond);
  EXPECT_EQ(relay_path(0, 1)->total_bytes_sent(), before);
  cluster().world().run_for(4 * kSecond);
  EXPECT_FALSE(relay_path(0, 1)->state.connected());
  EXPECT_FALSE(relay_path(1, 0)->state.connected());
  EXPECT_EQ(relaying(), -1);
  expect_nobody_ended();
  expect_verdicts_only_of({{0, "nic0"}, {1, "nic1"}});
}

TEST_F(Relay, TheEndsSeekAnotherRankWhenTheOneThatRelaysIsLost) {
  connect(options_of(4));
  open_relay();
  const int first = relaying();
  ASSERT_TRUE(first == 2 || first == 3);
  // It still reaches host 0 by rail 1, and host 1 no more.
  cluster().fabric().hole(cluster().nic(first, 0));
  Job job(cluster(), 64 * 1024, Algorithm::direct);
  job.start(40);
  run(cluster(), job, 30 * kSecond);
  EXPECT_TRUE(relay_up(0, 1));
  EXPECT_NE(relaying(), -1);
  expect_nobody_ended();
  cluster().world().run_for(2 * kSecond);
  expect_verdicts_only_of({{0, "nic0"}, {1, "nic1"}, {static_cast<uint32_t>(first), "nic0"}});
}

// Nothing relays between two hosts, and a third one that reaches only one of them cannot.
TEST_F(Relay, WithoutAThirdHostInReachTheyAreCutOffAsBefore) {
  for (const int hosts : {2, 3}) {
    connect(options_of(hosts, true));
    Job job(cluster(), 64 * 1024, Algorithm::direct);
    job.start(10'000);
    cluster().world().run_for(50 * kMillisecond);
    lose_rails();
    if (hosts == 3) cluster().fabric().pull(cluster().nic(2, 0));
    const auto given_up = [this] {
      return std::ranges::any_of(cluster().node(0).ends, [](const auto& end) {
        return end.first == Rank(1) && end.second == PeerEnd::cut_off;
      });
    };
    EXPECT_TRUE(within(10 * kSecond, given_up)) << hosts;
    EXPECT_EQ(relaying(), -1);
    job.abandon();
  }
}

// Otherwise the other two could not say goodbye to each other.
TEST_F(Relay, ARankThatRelaysLeavesAfterThoseThatNeedIt) {
  connect(options_of(3));
  open_relay();
  cluster().node(2).begin_goodbye();
  cluster().world().run_for(500 * kMillisecond);
  EXPECT_FALSE(cluster().node(2).runtime->goodbye_done());
  for (const int rank : {0, 1}) cluster().node(rank).begin_goodbye();
  const auto all_left = [this] {
    bool all = true;
    for (int rank = 0; rank < 3; ++rank) {
      if (cluster().node(rank).left()) continue;
      if (cluster().node(rank).runtime->goodbye_done()) {
        cluster().leave(rank);
      } else {
        all = false;
      }
    }
    return all;
  };
  const TimeNs began = cluster().now();
  ASSERT_TRUE(within(10 * kSecond, all_left));
  EXPECT_LT(cluster().now() - began, kSecond);
}

TEST_F(Relay, TheNicsOfTheRankThatRelaysAreNotOverfilled) {
  connect(options_of(3));
  uint64_t most = 0;
  for (int rank = 0; rank < 3; ++rank) {
    SimRank& node = cluster().node(rank);
    node.in_turn = [&node, &most] {
      for (uint16_t nic = 0; nic < 2; ++nic) {
        most = std::max(most,
                        node.engine().relays().outstanding(node.engine().nics().queue(NicId(nic))));
      }
    };
  }
  open_relay();
  Job job(cluster(), 1024 * 1024, Algorithm::direct);
  job.start(10);
  run(cluster(), job, 30 * kSecond);
  EXPECT_GT(most, 32 * 1024U) << "nothing was relayed";
  // 31.25 MB/s for 4 ms and twice the round trip.
  EXPECT_LT(most, 150'000U);
}

}  // namespace
}  // namespace r2ccl::sim
