// Links whose data connections open when they first have messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {
namespace {

ClusterOptions options_of(int hosts, int nics) {
  ClusterOptions options;
  options.hosts = hosts;
  options.nics = nics;
  options.data_at_start = false;
  options.checked = true;
  return options;
}

size_t data_connections(const Link& link) {
  return static_cast<size_t>(
      std::ranges::count_if(link.paths(), [](const Path* path) { return path->has_data(); }));
}

size_t data_connections(Cluster& cluster, int rank) {
  size_t sum = 0;
  for (int peer = 0; peer < cluster.size(); ++peer) {
    const Link* link = cluster.node(rank).engine().link(Rank(peer));
    if (link != nullptr) sum += data_connections(*link);
  }
  return sum;
}

const Link& link_of(Cluster& cluster, int rank, int peer) {
  return *cluster.node(rank).engine().link(Rank(peer));
}

// Returns how often a path of the rank has gone down.
size_t downs(Cluster& cluster, int rank) {
  return static_cast<size_t>(
      std::ranges::count(cluster.node(rank).events, PathPhase::down, &PathEvent::to));
}

// One message from a rank to another. Each end posts its part when the test says so.
class Transfer {
 public:
  Transfer(Cluster& cluster, int from, int to, size_t bytes = 256 * 1024)
      : cluster_(cluster), from_(from), to_(to), source_(bytes), target_(bytes) {
    for (size_t i = 0; i < bytes; ++i) source_[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  void send() {
    cluster_.node(from_).runtime->start(
        Operation::send(Rank(to_), source_, DataType::uint8,
                        [this](const Status& status) { sent_ = status.ok(); }));
    cluster_.node(from_).wake();
  }
  void receive() {
    cluster_.node(to_).runtime->start(
        Operation::receive(Rank(from_), target_, DataType::uint8,
                           [this](const Status& status) { received_ = status.ok(); }));
    cluster_.node(to_).wake();
  }
  // Returns whether the message is over within that time, and every byte of it right.
  bool arrives(TimeNs within) {
    const auto over = [this] { return sent_ && received_; };
    return cluster_.world().run_until(over, cluster_.now() + within) && source_ == target_;
  }

 private:
  Cluster& cluster_;
  const int from_;
  const int to_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  bool sent_ = false;
  bool received_ = false;
};

// Its chunks would be the smallest ones, because no path had a measured rate yet.
TEST(DataOnDemand, TheFirstMessageIsCutNoFinerThanTheNextOne) {
  Cluster cluster(options_of(2, 2));
  ASSERT_TRUE(cluster.connect());
  const auto frames = [&] {
    uint64_t sum = 0;
    for (const Path* path : link_of(cluster, 0, 1).paths()) sum += path->model.frames_sent();
    return sum;
  };
  uint64_t of_message[2] = {};
  for (uint64_t& each : of_message) {
    const uint64_t before = frames();
    Transfer transfer(cluster, 0, 1, 1024 * 1024);
    transfer.send();
    transfer.receive();
    ASSERT_TRUE(transfer.arrives(5 * kSecond));
    each = frames() - before;
  }
  EXPECT_LT(of_message[0], 2 * of_message[1]);
}

TEST(DataOnDemand, ARingOpensTwoLinksOfEachRank) {
  Cluster cluster(options_of(16, 2));
  ASSERT_TRUE(cluster.connect());
  for (int rank = 0; rank < cluster.size(); ++rank) {
    EXPECT_EQ(data_connections(cluster, rank), 0u) << rank;
    EXPECT_TRUE(cluster.node(rank).engine().ready());
    EXPECT_FALSE(cluster.node(rank).engine().has_unsent());
  }
  AllReduceJob job(cluster, 64 * 1024, Algorithm::ring);
  job.start(2);
  run(cluster, job, 5 * kSecond);
  for (int rank = 0; rank < cluster.size(); ++rank) {
    EXPECT_EQ(data_connections(cluster, rank), 4u) << rank;
    EXPECT_EQ(downs(cluster, rank), 0u);
  }
}

// The ranks agree without messages, and only 32 hosts measure.
TEST(DataOnDemand, TheStartOpensTheLinksThatTheMeasurementUses) {
  ClusterOptions options = options_of(36, 1);
  options.data_at_start = true;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (int rank = 0; rank < cluster.size(); ++rank) {
    cluster.node(rank).runtime->measure_costs();
  }
  cluster.wake_all();
  const auto agreed = [&] {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      if (!cluster.node(rank).runtime->costs_agreed()) return false;
    }
    return true;
  };
  ASSERT_TRUE(cluster.world().run_until(agreed, cluster.now() + 5 * kSecond));
  for (int rank = 0; rank < cluster.size(); ++rank) {
    EXPECT_EQ(data_connections(cluster, rank), rank < 32 ? 8u : 0u) << rank;
  }
}

TEST(DataOnDemand, AFewHostsAreAllConnectedAtTheStart) {
  for (const int hosts : {2, 5, 9}) {
    ClusterOptions options = options_of(hosts, 2);
    options.data_at_start = true;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    for (int rank = 0; rank < hosts; ++rank) {
      EXPECT_EQ(data_connections(cluster, rank), 2u * static_cast<size_t>(hosts - 1));
    }
  }
}

// The lower rank dials. The higher one asks for it.
TEST(DataOnDemand, OneEndIsEnoughToOpenALink) {
  for (const bool receives : {false, true}) {
    for (const int from : {0, 2}) {
      const int to = 2 - from;
      Cluster cluster(options_of(3, 2));
      ASSERT_TRUE(cluster.connect());
      Transfer transfer(cluster, from, to);
      receives ? transfer.receive() : transfer.send();
      const auto open = [&] {
        return data_connections(link_of(cluster, from, to)) == 2 &&
               data_connections(link_of(cluster, to, from)) == 2;
      };
      EXPECT_TRUE(cluster.world().run_until(open, cluster.now() + 50 * kMillisecond)) << from;
      receives ? transfer.send() : transfer.receive();
      EXPECT_TRUE(transfer.arrives(kSecond));
      EXPECT_EQ(data_connections(cluster, 1), 0u);
      EXPECT_EQ(downs(cluster, 0) + downs(cluster, 2), 0u);
    }
  }
}

// From the lower rank: SYN, HELLO, the proof, which exceeds TCP's first window and so takes two
// round trips, and the way of the message. The higher rank asks first, and begins its proof half a
// round trip later.
TEST(DataOnDemand, TheFirstMessageWaitsForAHandshakeAndAProof) {
  constexpr TimeNs kWay = 5 * kMillisecond;
  ClusterOptions options = options_of(2, 2);
  options.world.network.latency_ns = kWay;
  for (const int from : {0, 1}) {
    Cluster cluster(options);
    ASSERT_TRUE(cluster.connect());
    cluster.world().run_for(100 * kMillisecond);
    Transfer transfer(cluster, from, 1 - from, 1024);
    transfer.receive();
    transfer.send();
    EXPECT_TRUE(transfer.arrives((from == 0 ? 9 : 11) * kWay + kMillisecond)) << from;
  }
}

TEST(DataOnDemand, ANicThatLosesLargeFramesIsFoundByTheFirstMessage) {
  Cluster cluster(options_of(2, 2));
  ASSERT_TRUE(cluster.connect());
  cluster.fabric().mtu_hole(cluster.nic(1, 1), 1000);
  Transfer transfer(cluster, 0, 1);
  transfer.receive();
  transfer.send();
  EXPECT_TRUE(transfer.arrives(100 * kMillisecond)) << "by the other path";
  const auto found = [&] {
    return link_of(cluster, 0, 1).paths()[1]->state.phase() == PathPhase::down;
  };
  EXPECT_TRUE(cluster.world().run_until(found, cluster.now() + 2 * kSecond));
  EXPECT_TRUE(link_of(cluster, 0, 1).paths()[0]->carries());
  cluster.fabric().fix(cluster.nic(1, 1));
  const auto back = [&] { return link_of(cluster, 0, 1).paths()[1]->carries(); };
  EXPECT_TRUE(cluster.world().run_until(back, cluster.now() + 5 * kSecond));
}

// Resets the connections that one NIC opens from now on, so many of them.
void reset_next(Cluster& cluster, const SimNic& nic, int count) {
  Fabric& fabric = cluster.fabric();
  fabric.on_open([&fabric, &nic, left = count](uint64_t flow) mutable {
    const std::vector<FlowInfo> flows = fabric.flows();
    const auto found = std::ranges::find(flows, flow, &FlowInfo::id);
    if (found == flows.end() || found->from != &nic || left-- <= 0) return;
    fabric.at(fabric.clock().now() + 200 * kMicrosecond,
              [&fabric, flow] { fabric.reset_flow(flow); });
  });
}

TEST(DataOnDemand, APathFailsAfterFourAttemptsInVainAndNotBefore) {
  for (const int resets : {3, 4}) {
    Cluster cluster(options_of(2, 2));
    ASSERT_TRUE(cluster.connect());
    reset_next(cluster, cluster.nic(0, 1), resets);
    Transfer transfer(cluster, 0, 1);
    transfer.receive();
    transfer.send();
    EXPECT_TRUE(transfer.arrives(100 * kMillisecond)) << "by the other path";
    const auto carries = [&] { return link_of(cluster, 0, 1).paths()[1]->carries(); };
    EXPECT_TRUE(cluster.world().run_until(carries, cluster.now() + kSecond));
    EXPECT_EQ(downs(cluster, 0), resets == 3 ? 0u : 1u);
    EXPECT_EQ(downs(cluster, 1), resets == 3 ? 0u : 1u);
  }
}

TEST(DataOnDemand, AStoppedPeerIsNoFaultOfAPath) {
  for (const TimeNs stop : {300 * kMillisecond, 2 * kSecond, 8 * kSecond}) {
    Cluster cluster(options_of(2, 3));
    ASSERT_TRUE(cluster.connect());
    cluster.world().stop(cluster.node(1).actor);
    Transfer transfer(cluster, 0, 1);
    transfer.send();
    cluster.world().run_for(stop);
    cluster.world().resume(cluster.node(1).actor);
    cluster.node(1).wake();
    transfer.receive();
    EXPECT_TRUE(transfer.arrives(kSecond)) << stop;
    EXPECT_EQ(downs(cluster, 0) + downs(cluster, 1), 0u) << stop;
  }
}

// At each moment of the handshakes. Both ends know that the link has messages, so the path returns
// with both connections.
TEST(DataOnDemand, ANicThatDiesMeanwhileCostsItsPathAlone) {
  for (TimeNs after = 0; after < 2 * kMillisecond; after += 50 * kMicrosecond) {
    for (const bool pulled : {true, false}) {
      Cluster cluster(options_of(2, 2));
      ASSERT_TRUE(cluster.connect());
      Transfer transfer(cluster, 1, 0);
      transfer.receive();
      transfer.send();
      cluster.world().run_for(after);
      SimNic& nic = cluster.nic(0, 1);
      pulled ? cluster.fabric().pull(nic) : cluster.fabric().hole(nic);
      EXPECT_TRUE(transfer.arrives(kSecond)) << after;
      cluster.world().run_for(2 * kSecond);
      cluster.fabric().fix(nic);
      const auto back = [&] {
        return link_of(cluster, 0, 1).paths()[1]->carries() &&
               link_of(cluster, 1, 0).paths()[1]->carries();
      };
      EXPECT_TRUE(cluster.world().run_until(back, cluster.now() + 5 * kSecond)) << after;
    }
  }
}

}  // namespace
}  // namespace r2ccl::sim
