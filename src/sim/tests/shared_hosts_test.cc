// Several hosts with several ranks each: ranks of a host reduce in memory, hosts over the NICs.
#include <gtest/gtest.h>

#include <functional>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kHosts = 2;
constexpr int kRanksPerHost = 3;
// Enough for a column led by each rank, and for a ring of several segments among the hosts.
constexpr uint64_t kElements = 450'000;
constexpr uint64_t kBytes = kElements * sizeof(int64_t);

class SharedHosts : public testing::Test {
 protected:
  SharedHosts() : cluster_(options()) {}

  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = kHosts;
    options.ranks_per_host = kRanksPerHost;
    options.checked = true;
    return options;
  }

  // A link between hosts has up paths only; one within a host has lo on standby.
  bool connected() {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      for (int peer = 0; peer < cluster_.size(); ++peer) {
        Link* const link = cluster_.node(rank).engine().link(Rank(peer));
        if (link == nullptr) continue;
        const bool neighbours = rank / kRanksPerHost == peer / kRanksPerHost;
        for (size_t path = 0; path < (neighbours ? 1 : link->paths().size()); ++path) {
          if (link->paths()[path]->state.phase() != PathPhase::up) return false;
        }
      }
    }
    return true;
  }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_.world().run_until(done, cluster_.now() + time);
  }
  // Returns the bytes that the data NICs of a host have sent.
  uint64_t sent_by(int host) {
    uint64_t bytes = 0;
    for (const SimNic* nic : cluster_.node(host * kRanksPerHost).nics) bytes += nic->bytes_sent;
    return bytes;
  }
  // Runs operations, calls `fault` in the middle of the first, and expects the right results.
  void expect_right_despite(const std::function<void()>& fault) {
    ASSERT_TRUE(within(kSecond, [this] { return connected(); }));
    AllReduceJob job(cluster_, kElements);
    job.start(4);
    cluster_.world().run_for(15 * kMillisecond);
    ASSERT_FALSE(job.finished());
    fault();
    ASSERT_TRUE(within(20 * kSecond, [&] { return job.finished(); }));
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.wrong(), 0U);
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      EXPECT_TRUE(cluster_.node(rank).ends.empty());
    }
    EXPECT_EQ(cluster_.check().violations(), std::vector<std::string>{});
  }

  Cluster cluster_;
};

// A ring over all ranks alike would send 5/3 of it.
TEST_F(SharedHosts, TheNicsOfAHostSendTheVectorOnce) {
  ASSERT_TRUE(within(kSecond, [this] { return connected(); }));
  const uint64_t before = sent_by(0);
  AllReduceJob job(cluster_, kElements);
  job.start(3);
  ASSERT_TRUE(within(10 * kSecond, [&] { return job.finished(); }));
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.wrong(), 0U);
  EXPECT_LT(sent_by(0) - before, 3 * kBytes * 11 / 10);
}

TEST_F(SharedHosts, ANicThatEndsCostsNoByteAndNoPeer) {
  expect_right_despite([this] { cluster_.fabric().pull(cluster_.nic(0, 1)); });
}

TEST_F(SharedHosts, ABlackHoleCostsNoByteAndNoPeer) {
  expect_right_despite([this] { cluster_.fabric().hole(cluster_.nic(kRanksPerHost, 0)); });
}

TEST_F(SharedHosts, ConnectionsThatBreakInMemoryAndOnTheNicsCostNoByteAndNoPeer) {
  expect_right_despite([this] {
    for (const FlowInfo& flow : cluster_.fabric().flows()) cluster_.fabric().reset_flow(flow.id);
  });
}

TEST_F(SharedHosts, ARankThatStopsForAWhileDelaysTheOthersOnly) {
  expect_right_despite([this] {
    cluster_.world().stop(cluster_.node(1).actor);
    cluster_.fabric().at(cluster_.now() + 300 * kMillisecond,
                         [this] { cluster_.world().resume(cluster_.node(1).actor); });
  });
}

}  // namespace
}  // namespace r2ccl::sim
