// Reports of NICs that no sound job has: they contradict each other, come late or twice or to the
// wrong rank, or most NICs of the job are sick. No innocent is named, and the job goes on.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/link/notice.h"
#include "sim/tests/job_nics.h"

namespace r2ccl::sim {
namespace {

constexpr TimeNs kMs = kMillisecond;
constexpr TimeNs kKnown = 100 * kMs;
constexpr NicReach kReachesNone{0, 3};

class NicReports : public JobNics {
 protected:
  static NicReport of(std::optional<NicReach> first, std::optional<NicReach> second = NicReach{}) {
    return {{{0, first}, {1, second}}, {}};
  }
  void say(int from, int to, const NicReport& report) {
    Link& link = *cluster_->node(from).engine().link(Rank(to));
    link.send_notice(make_notice(NoticeKind::nic_report, encode(report)));
    cluster_->wake_all();
  }
  uint64_t refused() {
    uint64_t count = 0;
    for_living([&](int rank) { count += health(rank).refused(); });
    return count;
  }
  std::vector<uint64_t> versions() {
    std::vector<uint64_t> all;
    for_living([&](int rank) { all.push_back(health(rank).version()); });
    return all;
  }
};

// The others reach less than all hosts, but more than they miss.
TEST_F(NicReports, AHostThatCallsItsLostNicWholeHarmsNoOther) {
  start(4, 2);
  pull(1, 0);
  ASSERT_LT(time_until({{1, 0}}, kSecond), kKnown);
  say(1, 0, of(NicReach{}));
  EXPECT_LT(time_until({}, 2 * kSecond), kSecond);
  cluster_->world().run_for(2 * kSecond);
  EXPECT_TRUE(all_know({}));
  expect_equal_tables();
  for_living([&](int rank) {
    EXPECT_EQ(verdicts(rank), std::vector<std::string>{"verdict: nic h1 nic0, carrier_lost"});
  });
  expect_works();  // by the other NIC: a plan that uses the lost one costs time and no byte
  EXPECT_EQ(refused(), 0u);
}

TEST_F(NicReports, AHostThatAnswersNobodyAndCallsAllItsNicsWholeHarmsNoOther) {
  start(4, 2);
  for (const int index : {0, 1}) cluster_->fabric().hole(nic(1, index));
  cluster_->world().run_for(3 * kSecond);
  say(1, 0, of(NicReach{}));
  cluster_->world().run_for(2 * kSecond);
  for_living([&](int rank) {
    for (const auto& [host, index] : lost(rank)) EXPECT_EQ(host, 1) << "nic" << index;
    for (const std::string& verdict : verdicts(rank)) {
      EXPECT_NE(verdict.find(" h1"), std::string::npos) << verdict;
    }
  });
  expect_equal_tables();
  for (const int index : {0, 1}) fix(1, index);
  EXPECT_LT(time_until({}, 30 * kSecond), 10 * kSecond);
  expect_works();
}

// Host 3 calls one of its NICs lost and the other one whole, and changes them with each report.
TEST_F(NicReports, ThatContradictThemselvesInTurnsEndWithTheLastOne) {
  start(4, 2);
  for (int i = 0; i < 20; ++i) {
    say(3, 0, i % 2 == 0 ? of(kReachesNone, NicReach{}) : of(NicReach{}, kReachesNone));
    cluster_->world().run_for(37 * kMs);
    for_living([&](int rank) {
      for (const auto& [host, index] : lost(rank)) EXPECT_EQ(host, 3) << "nic" << index;
    });
  }
  say(3, 0, of(NicReach{}, NicReach{}));
  EXPECT_LT(time_until({}, 60 * kSecond), 40 * kSecond);
  EXPECT_EQ(verdicts(0), std::vector<std::string>());
  expect_works();
}

// Every host calls its NIC lost, so no rank can say which one it is; the paths are up.
TEST_F(NicReports, OfAllHostsThatCallARailLostStopNoJob) {
  start(4, 2);
  for (const int host : {1, 2, 3}) say(host, 0, of(kReachesNone));
  EXPECT_LT(time_until({{1, 0}, {2, 0}, {3, 0}}, kSecond), kKnown);
  EXPECT_EQ(verdicts(0), std::vector<std::string>());
  expect_works();
  for (const int host : {1, 2, 3}) say(host, 0, of(NicReach{}));
  EXPECT_LT(time_until({}, 5 * kSecond), kSecond);
  EXPECT_EQ(differing_plans(*cluster_), "");
}

TEST_F(NicReports, ToARankThatDoesNotDecideChangeNothingUntilItDoes) {
  start(4, 2);
  say(3, 1, of(kReachesNone));
  cluster_->world().run_for(kSecond);
  EXPECT_TRUE(all_know({}));
  EXPECT_EQ(versions(), std::vector<uint64_t>(4, 0));
  kill(0);
  EXPECT_TRUE(within(5 * kSecond, [&] { return all_know({{3, 0}}); }));
  expect_equal_tables();
}

TEST_F(NicReports, ThatComeTwiceChangeNothing) {
  start(4, 2);
  pull(3, 0);
  ASSERT_LT(time_until({{3, 0}}, kSecond), kKnown);
  cluster_->world().run_for(kSecond);
  const std::vector<uint64_t> before = versions();
  for (int i = 0; i < 3; ++i) {
    say(3, 0, of(kReachesNone));
    cluster_->world().run_for(kSecond);
  }
  EXPECT_TRUE(all_know({{3, 0}}));
  EXPECT_EQ(versions(), before);
  fix(3, 0);
  EXPECT_LT(time_until({}, 2 * kSecond), kSecond);
}

// The rank that uses the NIC, or the one that decides, is stopped from before the fault until after
// the repair.
TEST_F(NicReports, ThatComeAfterTheRepairLeaveTheNicWhole) {
  for (const int stopped : {0, 2}) {
    start(4, 2);
    cluster_->world().stop(cluster_->node(stopped).actor);
    cluster_->world().run_for(50 * kMs);
    pull(2, 1);
    cluster_->world().run_for(2 * kSecond);
    fix(2, 1);
    cluster_->world().run_for(kSecond);
    cluster_->world().resume(cluster_->node(stopped).actor);
    cluster_->world().run_for(10 * kSecond);
    EXPECT_TRUE(all_know({})) << stopped;
    expect_equal_tables();
    EXPECT_TRUE(views_whole(*cluster_));
    expect_works();
  }
}

// The last report of a rank goes when that dies.
TEST_F(NicReports, OfARankThatHasDiedCountNoMore) {
  ClusterOptions options;
  options.ranks_per_host = 2;
  start(3, 2, options);
  const NicReport lost{{{0, kReachesNone}, {1, NicReach{}}}, {}};
  say(3, 0, lost);  // the second rank of host 1
  ASSERT_LT(time_until({{1, 0}}, kSecond), kKnown);
  kill(3);
  EXPECT_LT(time_until({}, 5 * kSecond), 3 * kSecond);
  expect_equal_tables();
}

class SickNics : public NicReports {
 protected:
  static constexpr int kEach = 4;  // hosts, and NICs of each

  // Loses these one after the other while collectives run.
  void lose(const std::vector<std::pair<int, int>>& order) {
    start(kEach, kEach);
    AllReduceJob job(*cluster_, 32 * 1024);
    job.start(1'000'000);
    cluster_->world().run_for(20 * kMs);
    Places sick;
    for (const auto& [host, index] : order) {
      pull(host, index);
      sick.insert({host, index});
      const uint64_t checked = job.checked();
      EXPECT_TRUE(within(kSecond, [&] { return all_know(useless(sick)); })) << sick.size();
      cluster_->world().run_for(kSecond);
      EXPECT_TRUE(all_know(useless(sick))) << sick.size();
      for_living([&](int rank) {
        expect_plans_without(rank, sick);
        expect_no_innocent(rank, sick);
      });
      EXPECT_GT(job.checked(), checked) << "the job stands after " << sick.size();
    }
    for (const auto& [host, index] : order) fix(host, index);
    EXPECT_LT(time_until({}, 60 * kSecond), 40 * kSecond);
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.wrong(), 0u);
    job.abandon();
  }
  // Returns the sick NICs, and each NIC that is the last one of its rail: it reaches no host.
  static Places useless(const Places& sick) {
    Places all = sick;
    for (int rail = 0; rail < kEach; ++rail) {
      std::vector<int> left;
      for (int host = 0; host < kEach; ++host) {
        if (!sick.contains({host, rail})) left.push_back(host);
      }
      if (left.size() == 1) all.insert({left.front(), rail});
    }
    return all;
  }
  void expect_plans_without(int rank, const Places& sick) {
    const ViewAgreement& agreement = cluster_->node(rank).runtime->views()->agreement();
    EXPECT_TRUE(agreement.settled()) << "rank " << rank;
    if (agreement.latest().view.empty()) return;  // all hosts have lost alike
    EXPECT_EQ(unused_by(agreement.latest().view), useless(sick)) << "rank " << rank;
  }
  void expect_no_innocent(int rank, const Places& sick) {
    for (const Verdict& verdict : cluster_->node(rank).fault_reporter().verdicts()) {
      ASSERT_EQ(verdict.scope, Scope::nic) << describe(verdict);
      const int index = verdict.faulty.nic.back() - '0';
      EXPECT_TRUE(sick.contains({static_cast<int>(verdict.faulty.host), index}))
          << describe(verdict);
    }
  }
};

TEST_F(SickNics, OfWhichEachHostHasOneOnACommonRailLeftKeepTheJobGoing) {
  lose({{0, 2}, {1, 3}, {2, 1}, {3, 2}, {1, 1}, {2, 3}, {0, 3}, {3, 3}, {1, 2}, {2, 2}});
}

// Hosts 1 and 3 have no rail in common in the end.
TEST_F(SickNics, OfWhichTwoHostsHaveNoCommonRailLeftKeepTheJobGoing) {
  lose({{0, 2}, {1, 3}, {2, 3}, {3, 0}, {1, 1}, {2, 2}, {0, 3}, {3, 3}, {1, 2}, {3, 2}});
}

// The findings of a job's ranks about a fault.
struct Found {
  std::vector<std::string> verdicts;
  bool verdicts_equal = true;
  TimeNs known_after = 0;
  TimeNs whole_after = 0;
};

class WallClockSteps : public NicReports {
 protected:
  static constexpr int kAll = -1;
  enum class Kind : uint8_t { pulled, silent, small_only };

  // `rank`: whose clock steps, by so much; kAll: those of all.
  void step(int rank, TimeNs by) {
    if (rank == kAll) return cluster_->world().clock().jump_wall(by);
    cluster_->node(rank).clock->step_wall(by);
  }
  // The clock steps just after the fault, and back just after the repair.
  Found find(Kind kind, int rank, TimeNs by) {
    start(4, 2);
    AllReduceJob job(*cluster_, 8192, Algorithm::ring);
    if (kind == Kind::small_only) job.start(1'000'000);
    cluster_->world().run_for(50 * kMs);
    Found found;
    if (kind == Kind::pulled) pull(2, 1);
    if (kind == Kind::silent) cluster_->fabric().hole(nic(2, 1));
    if (kind == Kind::small_only) cluster_->fabric().mtu_hole(nic(2, 1), 1000);
    cluster_->world().run_for(5 * kMs);
    step(rank, by);
    found.known_after = time_until({{2, 1}}, 10 * kSecond);
    cluster_->world().run_for(kSecond);
    fix(2, 1);
    cluster_->world().run_for(5 * kMs);
    step(rank, -by);
    found.whole_after = time_until({}, 20 * kSecond);
    cluster_->world().run_for(kSecond);
    expect_equal_tables();
    found.verdicts = verdicts(0);
    found.verdicts_equal = differing_verdicts(*cluster_).empty();
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.wrong(), 0u);
    job.abandon();
    if (kind != Kind::small_only) expect_works();
    return found;
  }
};

TEST_F(WallClockSteps, ChangeNoVerdictAndNoRate) {
  for (const Kind kind : {Kind::pulled, Kind::silent, Kind::small_only}) {
    const Found without = find(kind, kAll, 0);
    ASSERT_EQ(without.verdicts.size(), 1u);
    ASSERT_TRUE(without.verdicts_equal);
    for (const int rank : {kAll, 0, 2}) {
      for (const TimeNs hours : {-5, 5}) {
        const Found found = find(kind, rank, hours * 3600 * kSecond);
        SCOPED_TRACE("fault " + std::to_string(static_cast<int>(kind)) + ", rank " +
                     std::to_string(rank) + ", " + std::to_string(hours) + " h");
        EXPECT_EQ(found.verdicts, without.verdicts);
        EXPECT_TRUE(found.verdicts_equal);
        // The beats of the ranks are no longer in step.
        EXPECT_LT(found.known_after, without.known_after + kSecond);
        EXPECT_LT(found.whole_after, without.whole_after + 2 * kSecond);
      }
    }
  }
}

}  // namespace
}  // namespace r2ccl::sim
