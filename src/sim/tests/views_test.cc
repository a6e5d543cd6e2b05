// Plans follow the NICs that are left: after a fault all ranks change to the view of the remaining
// NICs together, and back after the repair.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/link/notice.h"
#include "runtime/rank_report.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"
#include "sim/trial/end_check.h"

namespace r2ccl::sim {
namespace {

constexpr int kNics = 4;

class Views : public testing::Test {
 protected:
  void start(int hosts, ClusterOptions options = {}) {
    options.hosts = hosts;
    options.nics = kNics;
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->connect());
  }

  const ViewAgreement& agreement(int rank, int communicator = 0) {
    return cluster_->node(rank).communicator(communicator).views()->agreement();
  }

  // The view in which the host lacks this NIC.
  View without(int host, int nic) {
    std::vector<HostRates> hosts(static_cast<size_t>(cluster_->size()), HostRates(kNics));
    hosts[static_cast<size_t>(host)][static_cast<size_t>(nic)] = {0, 0};
    return View::of(std::move(hosts)).value();
  }

  // Returns the time until all ranks have settled on the view; kNever: more than `bound`.
  TimeNs time_until(const View& view, TimeNs bound) {
    const TimeNs from = cluster_->now();
    const auto agreed = [&] {
      for (int rank = 0; rank < cluster_->size(); ++rank) {
        if (!agreement(rank).settled() || !(agreement(rank).latest().view == view)) return false;
      }
      return true;
    };
    return cluster_->world().run_until(agreed, from + bound) ? cluster_->now() - from : kNever;
  }

  // Returns the number of notices about views that the ranks have received.
  size_t notices() {
    size_t count = 0;
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      for (const std::string& notice : cluster_->node(rank).notices) {
        const auto kind = static_cast<NoticeKind>(notice[0]);
        const bool of_views = kind == NoticeKind::view || kind == NoticeKind::nic_report ||
                              kind == NoticeKind::nic_rates;
        count += of_views ? 1 : 0;
      }
    }
    return count;
  }

  uint64_t refused() {
    uint64_t count = 0;
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      count += cluster_->node(rank).runtime->views()->refused();
    }
    return count;
  }

  void pull(int rank, int nic) { cluster_->fabric().pull(cluster_->nic(rank, nic)); }
  void fix(int rank, int nic) { cluster_->fabric().fix(cluster_->nic(rank, nic)); }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Views, FollowALostNicAndItsRepairWhileCollectivesRun) {
  start(4);
  AllReduceJob job(*cluster_, 64 * 1024);
  job.start(400);
  cluster_->world().run_for(50 * kMillisecond);
  pull(2, 1);
  EXPECT_LT(time_until(without(2, 1), kSecond), 100 * kMillisecond);
  // A silent NIC is known later. A view of two NICs follows.
  cluster_->world().run_for(300 * kMillisecond);
  EXPECT_EQ(agreement(0).latest().version, 1u);
  fix(2, 1);
  EXPECT_LT(time_until(View(), 2 * kSecond), kSecond);
  EXPECT_EQ(agreement(3).latest().version, 2u);
  run(*cluster_, job, 60 * kSecond);
  EXPECT_EQ(differing_plans(*cluster_), "");
  EXPECT_EQ(cluster_->node(1).runtime->operations().executor().latest_view(), View());
  EXPECT_EQ(refused(), 0u);
}

TEST_F(Views, ReachThePlansOfTheCollectives) {
  start(3);
  AllReduceJob job(*cluster_, 16 * 1024);
  job.start(100);
  cluster_->world().run_for(20 * kMillisecond);
  EXPECT_TRUE(cluster_->node(0).runtime->operations().executor().latest_view().empty());
  pull(1, 3);
  run(*cluster_, job, 60 * kSecond);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster_->node(rank).runtime->operations().executor().latest_view(), without(1, 3));
  }
}

TEST_F(Views, FollowASilentNicWithoutAnyEvent) {
  start(4);
  AllReduceJob job(*cluster_, 64 * 1024);
  job.start(300);
  cluster_->world().run_for(50 * kMillisecond);
  cluster_->fabric().hole(cluster_->nic(1, 0));
  EXPECT_LT(time_until(without(1, 0), 3 * kSecond), kSecond);
  fix(1, 0);
  EXPECT_LT(time_until(View(), 5 * kSecond), kSecond);
  run(*cluster_, job, 60 * kSecond);
  EXPECT_EQ(differing_plans(*cluster_), "");
}

// The NICs of the others miss most of those that they met before, and are whole.
TEST_F(Views, HoldNoNicForLostThatOnlyMissesLostOnes) {
  start(4);
  std::vector<HostRates> hosts = without(1, 0).hosts();
  hosts[2][0] = {0, 0};
  const View both = View::of(hosts).value();
  for (const bool silent : {false, true}) {
    AllReduceJob job(*cluster_, 64 * 1024);
    job.start(200);
    cluster_->world().run_for(20 * kMillisecond);
    for (const int host : {1, 2}) {
      if (silent) {
        cluster_->fabric().hole(cluster_->nic(host, 0));
      } else {
        pull(host, 0);
      }
    }
    const uint64_t before = agreement(3).latest().version;
    EXPECT_LT(time_until(both, 3 * kSecond), silent ? kSecond : 100 * kMillisecond);
    cluster_->world().run_for(kSecond);
    EXPECT_EQ(agreement(3).latest().view, both);
    for (const int host : {1, 2}) fix(host, 0);
    EXPECT_LT(time_until(View(), 5 * kSecond), kSecond);
    run(*cluster_, job, 60 * kSecond);
    // Silent NICs are found one after the other.
    if (!silent) {
      EXPECT_EQ(agreement(3).latest().version, before + 2);
    }
  }
  EXPECT_EQ(differing_plans(*cluster_), "");
}

// At the end two whole NICs are left on the rail, which miss two thirds of the others. The repair
// of all is one change: no whole NIC is lost meanwhile.
TEST_F(Views, FollowNicsThatFailInTurnAndReturnTogether) {
  start(6);
  std::vector<HostRates> hosts(6, HostRates(kNics));
  for (const int host : {2, 3, 4, 5}) {
    pull(host, 1);
    hosts[static_cast<size_t>(host)][1] = {0, 0};
    EXPECT_LT(time_until(View::of(hosts).value(), kSecond), 100 * kMillisecond);
    cluster_->world().run_for(kSecond);
  }
  EXPECT_EQ(agreement(0).latest().version, 4u);
  for (const int host : {2, 3, 4, 5}) fix(host, 1);
  const auto healthy = [&] {
    const View& view = agreement(0).latest().view;
    for (size_t host = 0; host < 2 && !view.empty(); ++host) {
      EXPECT_EQ(view.hosts()[host], HostRates(kNics));
    }
    return view.empty();
  };
  EXPECT_TRUE(cluster_->world().run_until(healthy, cluster_->now() + kSecond));
}

// One host has most of the ranks, and so most of the paths of the others.
TEST_F(Views, CountAHostOnceHoweverManyRanksItHas) {
  ClusterOptions options;
  options.plan_hosts = {0, 1, 1, 1, 1, 1, 1, 2, 3};
  start(9, options);
  for (int rank = 1; rank <= 6; ++rank) pull(rank, 2);
  std::vector<HostRates> hosts(4, HostRates(kNics));
  hosts[1][2] = {0, 0};
  EXPECT_LT(time_until(View::of(hosts).value(), kSecond), 100 * kMillisecond);
  cluster_->world().run_for(kSecond);
  EXPECT_EQ(agreement(0).latest().version, 1u);
}

TEST_F(Views, FollowADrainedNicAndItsReturn) {
  start(3);
  cluster_->node(2).engine().set_drained(NicId(1), true);
  cluster_->wake_all();
  EXPECT_LT(time_until(without(2, 1), kSecond), 100 * kMillisecond);
  cluster_->node(2).engine().set_drained(NicId(1), false);
  cluster_->wake_all();
  EXPECT_LT(time_until(View(), 2 * kSecond), kSecond);
}

TEST_F(Views, AreTheSameInEachCommunicator) {
  ClusterOptions options;
  options.communicators = 3;
  start(3, options);
  pull(0, 2);
  EXPECT_LT(time_until(without(0, 2), kSecond), 100 * kMillisecond);
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(agreement(1, c).latest().view, without(0, 2)) << c;
  }
}

TEST_F(Views, CostNothingWhileNothingChanges) {
  start(3);
  AllReduceJob job(*cluster_, 64 * 1024);
  job.start(100);
  run(*cluster_, job, 60 * kSecond);
  EXPECT_EQ(notices(), 0u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(agreement(rank).attempts(), 0u);
    EXPECT_EQ(cluster_->node(rank).runtime->views()->next_timeout(), kNever);
  }
}

TEST_F(Views, SeldomChangeForANicThatFlaps) {
  start(3);
  for (int flap = 0; flap < 20; ++flap) {
    pull(1, 1);
    cluster_->world().run_for(500 * kMillisecond);
    fix(1, 1);
    cluster_->world().run_for(1500 * kMillisecond);
  }
  EXPECT_LT(agreement(0).latest().version, 10u);
  EXPECT_LT(time_until(View(), 60 * kSecond), 40 * kSecond);
  EXPECT_TRUE(views_whole(*cluster_));
}

// The lost NIC of a rank that has stopped, and the other ranks, must not wait for it.
TEST_F(Views, ARankThatIsStoppedLeavesTheOldViewInForce) {
  start(3);
  cluster_->world().stop(cluster_->node(2).actor);
  pull(1, 1);
  cluster_->world().run_for(2 * kSecond);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(agreement(rank).latest().version, 0u);
    EXPECT_TRUE(agreement(rank).may_bind(1)) << rank;
  }
  cluster_->world().resume(cluster_->node(2).actor);
  EXPECT_LT(time_until(without(1, 1), 10 * kSecond), 8 * kSecond);
  AllReduceJob job(*cluster_, 1024);
  job.start(5);
  run(*cluster_, job, 10 * kSecond);
}

// The new communicator has not seen the NIC when it was whole.
TEST_F(Views, BeginWithTheSlowNicsOfTheParentForSomeTime) {
  std::vector<HostRates> hosts(3, HostRates(kNics));
  hosts[1][2] = {500, 250};
  ClusterOptions options;
  options.first_view = View::of(hosts).value();
  start(3, options);
  cluster_->world().run_for(RankViews::kFirstRates / 2);
  EXPECT_EQ(agreement(2).latest().view, options.first_view);
  // A report of the host about another NIC does not end it.
  pull(1, 0);
  hosts[1][0] = {0, 0};
  EXPECT_LT(time_until(View::of(hosts).value(), kSecond), 100 * kMillisecond);
  fix(1, 0);
  EXPECT_LT(time_until(options.first_view, 5 * kSecond), kNever);
  EXPECT_LT(time_until(View(), kSecond + RankViews::kFirstRates / 2), kNever);
}

// The NICs of that host have other numbers than those that they reach.
TEST_F(Views, HaveTheRailsOfAHostThatStartsWithoutANic) {
  ClusterOptions options;
  options.absent = {1, 0};
  start(4, options);
  EXPECT_EQ(agreement(0).latest().view, without(1, 0));
  std::vector<HostRates> hosts = without(1, 0).hosts();
  hosts[2][0] = hosts[1][3] = {0, 0};
  pull(2, 0);
  pull(1, 2);
  EXPECT_LT(time_until(View::of(std::move(hosts)).value(), kSecond), 100 * kMillisecond);
  const std::string report = report_text(*cluster_->node(0).runtime);
  EXPECT_NE(report.find(R"({"host":"h1","nics":[{"nic":"nic1","send":1000,"receive":1000},)"
                        R"({"nic":"nic2","send":1000,"receive":1000},)"
                        R"({"nic":"nic3","send":0,"receive":0}]})"),
            std::string::npos)
      << report;
  // Its first NIC is on rail 1.
  const std::vector<Rank> ranks = {Rank(1), Rank(3)};
  EXPECT_EQ(cluster_->node(0).runtime->views()->view_for(without(1, 1), ranks),
            View::of({HostRates{{0, 0}, {}, {}}, HostRates(kNics)}).value());
}

// A communicator that is split off in the moment of a repair.
TEST_F(Views, BeginAsThatOfTheParentAndFollowTheNics) {
  std::vector<HostRates> hosts(3, HostRates(kNics));
  hosts[1][2] = {0, 0};
  ClusterOptions options;
  options.first_view = View::of(hosts).value();
  start(3, options);
  AllReduceJob job(*cluster_, 1024);
  job.start(1);
  run(*cluster_, job, kSecond);
  EXPECT_EQ(cluster_->node(2).runtime->operations().executor().latest_view(), without(1, 2));
  EXPECT_LT(time_until(View(), kSecond), 500 * kMillisecond);
}

TEST_F(Views, OfAChildHaveItsHostsInItsOrder) {
  start(4);
  const RankViews& views = *cluster_->node(0).runtime->views();
  const std::vector<Rank> ranks = {Rank(3), Rank(2), Rank(0)};
  std::vector<HostRates> hosts(3, HostRates(kNics));
  hosts[1][0] = {0, 0};
  EXPECT_EQ(views.view_for(without(2, 0), ranks), View::of(hosts).value());
  EXPECT_TRUE(views.view_for(without(1, 0), ranks).empty());
  EXPECT_TRUE(views.view_for(View(), ranks).empty());
}

TEST_F(Views, OfAHostileRankAreRefusedAndCounted) {
  start(3);
  Link& link = *cluster_->node(1).engine().link(Rank(0));
  const std::vector<std::byte> bad(40, std::byte{7});
  link.send_notice(make_notice(NoticeKind::view, 0, bad));
  link.send_notice(make_notice(NoticeKind::nic_report, bad));
  // A view of two hosts.
  const auto commit = encode(ViewCommit{4, {1, 1, View::of({{{}}, {{500, 500}}}).value()}});
  link.send_notice(make_notice(NoticeKind::view, 1, commit));
  link.send_notice(make_notice(NoticeKind::view, 1, commit, ContextId(9)));  // is not there
  cluster_->wake_all();
  cluster_->world().run_for(kSecond);
  EXPECT_EQ(cluster_->node(0).runtime->views()->refused(), 3u);
  EXPECT_EQ(agreement(0).latest().version, 0u);
  pull(2, 0);
  EXPECT_LT(time_until(without(2, 0), kSecond), 100 * kMillisecond);
}

std::vector<std::byte> first_part(const RateTable& table) {
  std::vector<std::byte> body(sizeof(uint32_t));
  const auto rates = encode(table);
  body.insert(body.end(), rates.begin(), rates.end());
  return body;
}

TEST_F(Views, TakeTheRatesOfTheRankThatDecidesAlone) {
  start(3);
  const RateTable lost = {{1, 0, {0, 0}}};
  for (const int to : {0, 1}) {
    Link& link = *cluster_->node(2).engine().link(Rank(to));
    link.send_notice(make_notice(NoticeKind::nic_rates, first_part(lost)));
  }
  cluster_->wake_all();
  cluster_->world().run_for(kSecond);
  for (const int rank : {0, 1}) EXPECT_EQ(agreement(rank).attempts(), 0u) << rank;
  // NICs that are not there change no plan.
  Link& link = *cluster_->node(0).engine().link(Rank(1));
  link.send_notice(make_notice(NoticeKind::nic_rates, first_part({{1, 63, {0, 0}}})));
  cluster_->wake_all();
  cluster_->world().run_for(kSecond);
  pull(2, 0);
  EXPECT_LT(time_until(without(2, 0), kSecond), 100 * kMillisecond);
}

// The plans follow the verdict: the NIC's idle paths pass small packets, and stay up.
TEST_F(Views, FollowAVerdictOnANicThatLosesLargePackets) {
  start(5);
  AllReduceJob job(*cluster_, 8192, Algorithm::ring);
  job.start(3000);
  cluster_->world().run_for(50 * kMillisecond);
  cluster_->fabric().mtu_hole(cluster_->nic(2, 1), 1000);
  EXPECT_LT(time_until(without(2, 1), 5 * kSecond), kSecond);
  fix(2, 1);
  EXPECT_LT(time_until(View(), 10 * kSecond), kNever);
  job.abandon();
}

// Operations take seconds, so the NICs are busy all the time.
class MeasuredViews : public Views {
 protected:
  static constexpr uint64_t kRate = 3'125'000;  // 25 Mbit/s

  void start_long_operations(int hosts, ClusterOptions options = {}) {
    options.rate_bytes_per_s = kRate;
    start(hosts, options);
    job_ = std::make_unique<AllReduceJob>(*cluster_, 512 * 1024);
    job_->start(1000);
    cluster_->world().run_for(5 * kSecond);
  }
  void end() {
    EXPECT_EQ(job_->error(), "");
    EXPECT_EQ(job_->wrong(), 0u);
    job_->abandon();
  }

  std::unique_ptr<AllReduceJob> job_;
};

TEST_F(MeasuredViews, FollowANicThatBecomesSlowAndItsReturn) {
  start_long_operations(4);
  EXPECT_EQ(agreement(0).latest().version, 0u);
  cluster_->fabric().slow(cluster_->nic(1, 2), kRate / 2);
  std::vector<HostRates> hosts(4, HostRates(kNics));
  hosts[1][2] = {500, 500};
  const View slow = View::of(std::move(hosts)).value();
  EXPECT_LT(time_until(slow, 20 * kSecond), 12 * kSecond);
  fix(1, 2);
  EXPECT_LT(time_until(View(), 20 * kSecond), 12 * kSecond);
  end();
}

TEST_F(MeasuredViews, NameTheRailOfASlowNicOfAHostThatLacksAnother) {
  ClusterOptions options;
  options.absent = {1, 0};
  start_long_operations(4, options);
  cluster_->fabric().slow(cluster_->nic(1, 1), kRate / 2);
  std::vector<HostRates> hosts = without(1, 0).hosts();
  // By the exchange that this view chooses, each NIC sends to several hosts, and shows no receiver.
  hosts[1][2] = {500, 1000};
  EXPECT_LT(time_until(View::of(std::move(hosts)).value(), 20 * kSecond), 12 * kSecond);
  end();
}

TEST_F(MeasuredViews, DoNotFollowAHostWhoseNicsAreAllSlow) {
  start_long_operations(3);
  for (int nic = 0; nic < kNics; ++nic) {
    cluster_->fabric().slow(cluster_->nic(1, nic), kRate / 2);
  }
  cluster_->world().run_for(15 * kSecond);
  EXPECT_EQ(agreement(0).latest().version, 0u);
  end();
}

TEST_F(MeasuredViews, DoNotFollowShortOperations) {
  start(3);
  AllReduceJob job(*cluster_, 2048);
  job.start(2000);
  cluster_->world().run_for(200 * kMillisecond);
  cluster_->fabric().slow(cluster_->nic(1, 2), 3'125'000);
  run(*cluster_, job, 60 * kSecond);
  EXPECT_EQ(agreement(0).latest().version, 0u);
}

TEST_F(Views, ThatAreSwitchedOffChangeNoPlan) {
  ClusterOptions options;
  options.views = false;
  start(3, options);
  AllReduceJob job(*cluster_, 16 * 1024);
  job.start(60);
  pull(1, 1);
  run(*cluster_, job, 60 * kSecond);
  EXPECT_EQ(cluster_->node(0).runtime->views(), nullptr);
  EXPECT_TRUE(cluster_->node(0).runtime->operations().executor().latest_view().empty());
  EXPECT_EQ(notices(), 0u);
}

}  // namespace
}  // namespace r2ccl::sim
