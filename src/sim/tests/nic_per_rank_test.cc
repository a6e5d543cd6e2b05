// Hosts whose ranks use one NIC each, as on servers with a NIC for each GPU: the host's NICs are
// those of all its ranks.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/link/notice.h"
#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kHosts = 3;
constexpr int kRanksPerHost = 3;

class NicPerRank : public testing::Test {
 protected:
  NicPerRank() : cluster_(options()) {}

  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = kHosts;
    options.nics = kRanksPerHost;
    options.ranks_per_host = kRanksPerHost;
    options.nic_per_rank = true;
    options.checked = true;
    return options;
  }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_.world().run_until(done, cluster_.now() + time);
  }
  // A rank reaches the rank of another host whose NIC is on its rail, and the others by relays.
  bool connected() {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      for (int peer = 0; peer < cluster_.size(); ++peer) {
        Link* const link = cluster_.node(rank).engine().link(Rank(peer));
        if (link == nullptr || rank % kRanksPerHost != peer % kRanksPerHost) continue;
        for (const Path* path : link->paths()) {
          if (!path->spec.relay && path->state.phase() != PathPhase::up) return false;
        }
      }
    }
    return true;
  }
  SimNic& nic(int host, int index) { return cluster_.nic(host * kRanksPerHost, index); }
  // Returns whether all ranks plan with the NICs of all hosts but for this one.
  bool all_plan_without(int host, int index) {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      const RankViews& views = *cluster_.node(rank).runtime->views();
      const View& view = views.agreement().latest().view;
      if (view.empty() || !views.agreement().settled()) return false;
      for (int h = 0; h < kHosts; ++h) {
        for (int i = 0; i < kRanksPerHost; ++i) {
          const auto at = static_cast<size_t>(h);
          const auto rail = views.nics().rail_of(at, "nic" + std::to_string(i));
          const bool used = view.hosts()[at][rail.value()].send > 0;
          if (used == (h == host && i == index)) return false;
        }
      }
    }
    return true;
  }
  bool all_plan_with_all() {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      if (!cluster_.node(rank).runtime->views()->agreement().latest().view.empty()) return false;
    }
    return true;
  }
  // Returns the only verdict, once all ranks have it.
  std::optional<Verdict> verdict() {
    const auto all_have = [&] {
      for (int rank = 0; rank < cluster_.size(); ++rank) {
        if (cluster_.node(rank).fault_reporter().verdicts().empty()) return false;
      }
      return true;
    };
    if (!within(kSecond, all_have)) return std::nullopt;
    cluster_.world().run_for(3 * kSecond);
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      const auto& verdicts = cluster_.node(rank).fault_reporter().verdicts();
      EXPECT_EQ(verdicts.size(), 1u) << "rank " << rank;
    }
    return cluster_.node(0).fault_reporter().verdicts().front();
  }

  Cluster cluster_;
};

TEST_F(NicPerRank, PlansFollowTheNicOfAnyRank) {
  ASSERT_TRUE(within(2 * kSecond, [this] { return connected(); }));
  for (const int local : {0, 1, 2}) {
    AllReduceJob job(cluster_, 100'000);
    job.start(20);
    cluster_.world().run_for(20 * kMillisecond);
    cluster_.fabric().pull(nic(1, local));
    EXPECT_TRUE(within(200 * kMillisecond, [&] { return all_plan_without(1, local); })) << local;
    cluster_.fabric().fix(nic(1, local));
    EXPECT_TRUE(within(2 * kSecond, [&] { return all_plan_with_all(); })) << local;
    ASSERT_TRUE(within(60 * kSecond, [&] { return job.finished(); }));
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.wrong(), 0u);
  }
}

TEST_F(NicPerRank, ARankSpeaksForTheNicsThatItUses) {
  ASSERT_TRUE(within(2 * kSecond, [this] { return connected(); }));
  // Rank 1 is on host 0, as rank 0, and uses the NIC of rail 1.
  Link& link = *cluster_.node(1).engine().link(Rank(0));
  const NicReport lost{{{0, NicReach{0, 2}}}, {}};
  link.send_notice(make_notice(NoticeKind::nic_report, encode(lost)));
  cluster_.wake_all();
  cluster_.world().run_for(kSecond);
  EXPECT_EQ(cluster_.node(0).runtime->views()->refused(), 1u);
  EXPECT_TRUE(all_plan_with_all());
}

TEST_F(NicPerRank, ASilentNicOfAnyRankIsNamed) {
  ASSERT_TRUE(within(2 * kSecond, [this] { return connected(); }));
  cluster_.fabric().hole(nic(2, 1));
  const auto found = verdict();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->scope, Scope::nic);
  EXPECT_EQ(found->faulty, (NicName{2, "nic1"}));
}

TEST_F(NicPerRank, AHostWithoutAnyNicThatAnswersIsNamed) {
  ASSERT_TRUE(within(2 * kSecond, [this] { return connected(); }));
  for (int local = 0; local < kRanksPerHost; ++local) cluster_.fabric().hole(nic(1, local));
  const auto found = verdict();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->scope, Scope::host);
  EXPECT_EQ(found->faulty.host, 1u);
}

}  // namespace
}  // namespace r2ccl::sim
