// An idle job: how few frames it sends, and how soon it notices a fault all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

// A pong takes a round trip, and ranks wake a little late.
constexpr TimeNs kMargin = 20 * kMillisecond;

class IdleJob {
 public:
  IdleJob(int hosts, int nics) : cluster_(options(hosts, nics)) {
    EXPECT_TRUE(cluster_.connect());
    run(3 * kSecond);
  }

  Cluster& cluster() { return cluster_; }
  void run(TimeNs duration) { cluster_.world().run_for(duration); }

  Link* link(int rank, int peer) { return cluster_.node(rank).engine().link(Rank(peer)); }

  template <typename Each>
  void for_each_path(const Each& each) {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      for (int peer = 0; peer < cluster_.size(); ++peer) {
        if (rank == peer) continue;
        for (const Path* path : link(rank, peer)->paths()) each(rank, *link(rank, peer), *path);
      }
    }
  }

  uint64_t frames() {
    uint64_t sum = 0;
    for_each_path([&](int, const Link&, const Path& path) { sum += path.total_control_frames(); });
    return sum;
  }

  // Returns the longest time for which an end that opens paths has had no pong on one.
  TimeNs longest_unchecked() {
    TimeNs longest = 0;
    for_each_path([&](int, const Link& link, const Path& path) {
      if (!link.opens_paths()) return;
      longest = std::max(longest, cluster_.now() - path.health.pong_at);
    });
    return longest;
  }

  // Returns the longest time for which a NIC of a rank has had neither a pong nor a frame to pong.
  TimeNs longest_unchecked_nic() {
    std::map<std::pair<int, uint16_t>, TimeNs> checked_at;
    for_each_path([&](int rank, const Link& link, const Path& path) {
      if (path.spec.control_only || !link.opens_paths()) return;
      const int peer = link.peer().value();
      TimeNs& here = checked_at[{rank, path.spec.local_nic.value()}];
      TimeNs& there = checked_at[{peer, path.spec.remote_nic.value()}];
      here = std::max(here, path.health.pong_at);
      there = std::max(there, path.health.pong_at);
    });
    TimeNs oldest = cluster_.now();
    for (const auto& [nic, at] : checked_at) oldest = std::min(oldest, at);
    return cluster_.now() - oldest;
  }

  // Returns the time until no path between these NICs is connected; kNever: longer than `bound`.
  TimeNs time_until_down(TimeNs bound,
                         const std::function<bool(int, const Link&, const Path&)>& of) {
    const TimeNs began = cluster_.now();
    const auto all_down = [&] {
      bool any = false;
      for_each_path([&](int rank, const Link& link, const Path& path) {
        any = any || (of(rank, link, path) && path.state.connected());
      });
      return !any;
    };
    while (!all_down()) {
      if (cluster_.now() - began > bound) return kNever;
      run(10 * kMillisecond);
    }
    return cluster_.now() - began;
  }

 private:
  static ClusterOptions options(int hosts, int nics) {
    ClusterOptions made;
    made.hosts = hosts;
    made.nics = nics;
    return made;
  }

  Cluster cluster_;
};

TEST(Heartbeat, AnIdleRankSendsOneFrameForEachLinkAndSecondHoweverManyNicsItHas) {
  for (const int nics : {2, 8}) {
    IdleJob job(16, nics);
    constexpr TimeNs kWatched = 10 * kSecond;
    const uint64_t before = job.frames();
    job.run(kWatched);
    // A ping from one end and a pong from the other; the out-of-band path costs no more.
    EXPECT_EQ(job.frames() - before, 16u * 15u * 10u) << nics << " NICs";
  }
}

TEST(Heartbeat, AnIdleJobChecksEachPathInItsPeriodAndEachNicSooner) {
  struct Case {
    int hosts;
    int nics;
    TimeNs path_period;
    TimeNs nic_period;
  };
  for (const Case& c : {Case{2, 8, 1 * kSecond, 1 * kSecond}, Case{4, 4, 1 * kSecond, 1 * kSecond},
                        Case{4, 8, 2 * kSecond, 1 * kSecond}, Case{8, 8, 5 * kSecond, 2 * kSecond},
                        Case{16, 8, 10 * kSecond, 2 * kSecond}}) {
    SCOPED_TRACE(std::to_string(c.hosts) + " hosts x " + std::to_string(c.nics) + " NICs");
    IdleJob job(c.hosts, c.nics);
    EXPECT_EQ(job.link(0, 1)->check_period(), c.path_period);
    job.run(c.path_period);
    for (int i = 0; i < 20; ++i) {
      job.run(500 * kMillisecond);
      EXPECT_LE(job.longest_unchecked(), c.path_period + kMargin);
      EXPECT_LE(job.longest_unchecked_nic(), c.nic_period + kMargin);
    }
  }
}

TEST(Heartbeat, TheIdleLinksOfARankWithManyTakeTurnsAndStillFindASilentNic) {
  constexpr int kHosts = 42;  // 41 links: three intervals
  IdleJob job(kHosts, 1);
  const uint64_t before = job.frames();
  job.run(9 * kSecond);
  EXPECT_EQ(job.frames() - before, uint64_t{kHosts} * (kHosts - 1) * 3);
  job.cluster().fabric().hole(job.cluster().nic(5, 0));
  const TimeNs took =
      job.time_until_down(20 * kSecond, [](int rank, const Link&, const Path& path) {
        return rank == 5 && path.spec.local_nic == NicId(0);
      });
  EXPECT_LT(took, 4 * kSecond);
}

TEST(Heartbeat, AnIdleJobLosesASilentNicWithinSeconds) {
  IdleJob job(16, 8);
  job.cluster().fabric().hole(job.cluster().nic(5, 3));
  const TimeNs took =
      job.time_until_down(20 * kSecond, [](int rank, const Link&, const Path& path) {
        return rank == 5 && path.spec.local_nic == NicId(3);
      });
  EXPECT_LT(took, 3 * kSecond);
  job.run(kSecond);
  for (int rank = 0; rank < 16; ++rank) {
    const auto& verdicts = job.cluster().node(rank).fault_reporter().verdicts();
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].faulty, (NicName{5, "nic3"}));
  }
}

TEST(Heartbeat, AnIdleJobLosesASilentPairWithinItsPeriod) {
  IdleJob job(16, 8);
  job.cluster().fabric().sever(job.cluster().nic(5, 3), job.cluster().nic(9, 3));
  const TimeNs took =
      job.time_until_down(20 * kSecond, [](int rank, const Link& link, const Path& path) {
        return rank == 5 && link.peer() == Rank(9) && path.spec.local_nic == NicId(3);
      });
  EXPECT_LT(took, 9 * kSecond + 500 * kMillisecond);
}

}  // namespace
}  // namespace r2ccl::sim
