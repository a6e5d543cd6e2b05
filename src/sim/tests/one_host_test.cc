// Ranks of one host: their links use shared memory, and lo only while they must.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kElements = 100'000;

class OneHost : public testing::Test {
 protected:
  OneHost() : cluster_(options()) {}

  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = 1;
    options.ranks_per_host = kRanks;
    options.management = false;
    options.checked = true;
    return options;
  }

  void share_memory(bool shares) {
    for (int rank = 0; rank < kRanks; ++rank) cluster_.node(rank).host->set_shares_memory(shares);
  }
  void reset_all_connections() {
    for (const FlowInfo& flow : cluster_.fabric().flows()) cluster_.fabric().reset_flow(flow.id);
  }
  // Returns whether `holds` is true for the two paths of each link.
  bool each_link(const std::function<bool(const Path& shm, const Path& lo)>& holds) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int peer = 0; peer < kRanks; ++peer) {
        Link* const link = cluster_.node(rank).engine().link(Rank(peer));
        if (link != nullptr && !holds(*link->paths()[0], *link->paths()[1])) return false;
      }
    }
    return true;
  }
  bool uses_shared_memory() {
    return each_link(
        [](const Path& shm, const Path& lo) { return shm.carries() && !lo.carries(); });
  }
  bool uses_lo() {
    return each_link(
        [](const Path& shm, const Path& lo) { return !shm.carries() && lo.carries(); });
  }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_.world().run_until(done, cluster_.now() + time);
  }
  void expect_right(const AllReduceJob& job) {
    EXPECT_TRUE(job.finished());
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.wrong(), 0U);
  }

  Cluster cluster_;
};

TEST_F(OneHost, LinksUseSharedMemoryAndDoNotOpenLo) {
  ASSERT_TRUE(within(kSecond, [this] { return uses_shared_memory(); }));
  AllReduceJob job(cluster_, kElements);
  job.start(20);
  ASSERT_TRUE(within(10 * kSecond, [&] { return job.finished(); }));
  expect_right(job);
  cluster_.world().run_for(10 * kSecond);
  EXPECT_TRUE(each_link([](const Path&, const Path& lo) { return !lo.state.connected(); }));
}

TEST_F(OneHost, LinksUseLoWhereNoMemoryIsShared) {
  share_memory(false);
  ASSERT_TRUE(within(kSecond, [this] { return uses_lo(); }));
  AllReduceJob job(cluster_, kElements);
  job.start(20);
  ASSERT_TRUE(within(10 * kSecond, [&] { return job.finished(); }));
  expect_right(job);
}

TEST_F(OneHost, APeerThatIsReadyLateCostsNoPathOverLo) {
  share_memory(false);
  cluster_.world().run_for(50 * kMillisecond);
  share_memory(true);
  ASSERT_TRUE(within(kSecond, [this] { return uses_shared_memory(); }));
  cluster_.world().run_for(kSecond);
  EXPECT_TRUE(each_link([](const Path&, const Path& lo) { return lo.dials == 0; }));
}

// Lo stays connected then, for the next time, and gets no chunks.
TEST_F(OneHost, LinksThatUseLoReturnToSharedMemory) {
  share_memory(false);
  ASSERT_TRUE(within(kSecond, [this] { return uses_lo(); }));
  share_memory(true);
  ASSERT_TRUE(within(10 * kSecond, [this] { return uses_shared_memory(); }));
  const auto sent_on_lo = [this] {
    uint64_t bytes = 0;
    each_link([&](const Path&, const Path& lo) { return bytes += lo.total_bytes_sent(), true; });
    return bytes;
  };
  const uint64_t before = sent_on_lo();
  AllReduceJob job(cluster_, kElements);
  job.start(20);
  ASSERT_TRUE(within(10 * kSecond, [&] { return job.finished(); }));
  expect_right(job);
  EXPECT_EQ(sent_on_lo(), before);
}

TEST_F(OneHost, SharedMemoryThatBreaksInTheMiddleCostsNoByteAndNoPeer) {
  ASSERT_TRUE(within(kSecond, [this] { return uses_shared_memory(); }));
  for (int round = 0; round < 10; ++round) {
    share_memory(round % 2 == 0);  // it returns at once, or stays away
    AllReduceJob job(cluster_, kElements);
    job.start(4);
    cluster_.world().run_for(kMillisecond / 10 * (round + 1));
    EXPECT_FALSE(job.finished());
    reset_all_connections();
    ASSERT_TRUE(within(10 * kSecond, [&] { return job.finished(); })) << "round " << round;
    expect_right(job);
  }
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(cluster_.node(rank).ends.empty());
}

}  // namespace
}  // namespace r2ccl::sim
