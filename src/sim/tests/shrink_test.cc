// Smaller communicators after deaths, and without them: their agreement, their errors, and the
// communicator that they come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "sim/tests/contexts.h"

namespace r2ccl::sim {
namespace {

using Ranks = std::vector<Rank>;

bool over(const RankRuntime& rank) {
  return rank.shrinks() != nullptr && !rank.shrinks()->waits();
}

Status result(const RankRuntime& rank) {
  return over(rank) ? rank.shrinks()->result() : Status(Code::in_progress, "it waits");
}

class Shrink : public Contexts {
 protected:
  using Call = std::pair<RankRuntime*, Ranks>;

  void call(RankRuntime& rank, Ranks excluded) {
    EXPECT_TRUE(rank.begin_shrink(std::move(excluded)).ok());
    cluster_->wake_all();
  }
  // Calls on these ranks of the first communicator, and returns their results.
  std::vector<Status> shrink(const std::vector<int>& ranks, const Ranks& excluded,
                             TimeNs bound = kSoon) {
    for (const int rank : ranks) call(first(rank), excluded);
    const bool ended = within(
        bound, [&] { return std::ranges::all_of(ranks, [&](int r) { return over(first(r)); }); });
    EXPECT_TRUE(ended);
    std::vector<Status> results;
    for (const int rank : ranks) results.push_back(result(first(rank)));
    return results;
  }
  void kill(int rank) { cluster_->world().kill(*cluster_->node(rank).host); }
  bool wait_for_failure(const std::vector<int>& ranks) {
    return within(5 * kSecond, [&] {
      return std::ranges::all_of(ranks, [&](int r) { return !first(r).failure().ok(); });
    });
  }
};

TEST_F(Shrink, GoesOnAfterADeath) {
  kill(3);
  ASSERT_TRUE(wait_for_failure({0, 1, 2}));
  const TimeNs began = cluster_->now();
  for (const Status& each : shrink({0, 1, 2}, {Rank(3)})) EXPECT_TRUE(each.ok()) << each.message();
  EXPECT_LT(cluster_->now() - began, 10 * kMillisecond);
  Group& left = make(1000, {0, 1, 2});
  for (int round = 0; round < 3; ++round) expect_works(left, round);
  EXPECT_TRUE(left.end());
}

TEST_F(Shrink, IsTheWayOnUntilOneRankIsLeft) {
  kill(3);
  ASSERT_TRUE(wait_for_failure({0, 1, 2}));
  for (const Status& each : shrink({0, 1, 2}, {Rank(3)})) ASSERT_TRUE(each.ok());
  Group& three = make(1000, {0, 1, 2});
  expect_works(three);
  kill(0);
  ASSERT_TRUE(within(5 * kSecond, [&] { return three.failed(1) && three.failed(2); }));
  for (const size_t rank : {1, 2}) call(three.rank(rank), {Rank(0)});
  ASSERT_TRUE(within(kSoon, [&] { return over(three.rank(1)) && over(three.rank(2)); }));
  Group& two = make(1001, {1, 2});
  expect_works(two);
  kill(1);
  ASSERT_TRUE(within(5 * kSecond, [&] { return two.failed(1); }));
  call(two.rank(1), {Rank(0)});
  EXPECT_TRUE(result(two.rank(1)).ok());
  Group& one = make(1002, {2});
  expect_works(one);
}

// Its caller has seen the death; the others may call before they have.
TEST_F(Shrink, NamesARankThatDiedAndIsNotExcluded) {
  kill(3);
  for (const Status& each : shrink({0, 1}, {Rank(2)}, 5 * kSecond)) {
    EXPECT_EQ(each.code(), Code::remote);
    EXPECT_NE(each.message().find("rank 3 (host h3, pid 0) died"), std::string::npos)
        << each.message();
    EXPECT_EQ(each.ranks(), Ranks{Rank(3)});
  }
}

// The outcome is the same on all that live, and the way on is open.
TEST_F(Shrink, SurvivesTheDeathOfItsCoordinatorAtAnyMoment) {
  int made = 0;
  constexpr TimeNs kStep = 40 * kMicrosecond;
  constexpr int kSteps = 24;
  for (int step = 0; step < kSteps; ++step) {
    if (step > 0) {
      groups_.clear();
      SetUp();
    }
    for (const int rank : {2, 1, 0}) call(first(rank), {Rank(3)});
    cluster_->world().run_for(step * kStep);
    kill(0);
    ASSERT_TRUE(within(5 * kSecond, [&] { return over(first(1)) && over(first(2)); }));
    ASSERT_EQ(result(first(1)).ok(), result(first(2)).ok()) << "step " << step;
    if (result(first(1)).ok()) {
      ++made;
      Group& three = make(1000, {0, 1, 2}, false);
      for (const size_t rank : {1, 2}) EXPECT_TRUE(three.join(rank).ok());
      EXPECT_TRUE(within(5 * kSecond, [&] { return three.failed(1) && three.failed(2); }));
      continue;
    }
    EXPECT_EQ(result(first(1)).ranks(), Ranks{Rank(0)});
    ASSERT_TRUE(wait_for_failure({1, 2}));
    for (const Status& each : shrink({1, 2}, {Rank(0), Rank(3)})) EXPECT_TRUE(each.ok());
    expect_works(make(1000, {1, 2}));
  }
  EXPECT_GT(made, 0);
  EXPECT_LT(made, kSteps);
}

TEST_F(Shrink, WaitsForARankThatIsStopped) {
  kill(3);
  ASSERT_TRUE(wait_for_failure({0, 1, 2}));
  cluster_->world().deschedule(cluster_->node(1).actor, 30 * kSecond);
  for (const int rank : {0, 2}) call(first(rank), {Rank(3)});
  cluster_->world().run_for(29 * kSecond);
  EXPECT_FALSE(over(first(0)));
  cluster_->world().run_for(2 * kSecond);
  call(first(1), {Rank(3)});
  ASSERT_TRUE(within(kSoon, [&] { return over(first(0)) && over(first(1)) && over(first(2)); }));
  expect_works(make(1000, {0, 1, 2}));
}

TEST_F(Shrink, NamesARankThatDoesNotCall) {
  for (const int rank : {1, 2}) call(first(rank), {Rank(3)});
  cluster_->world().run_for(299 * kSecond);
  EXPECT_FALSE(over(first(1)));
  cluster_->world().run_for(2 * kSecond);
  for (const int rank : {1, 2}) {
    EXPECT_EQ(result(first(rank)).code(), Code::timeout);
    EXPECT_EQ(result(first(rank)).ranks(), Ranks{Rank(0)});
  }
  // The first call of that rank meets their next one.
  for (const Status& each : shrink({0, 1, 2}, {Rank(3)})) EXPECT_TRUE(each.ok()) << each.message();
}

// It exchanges nothing when it is made, so a rank may not know of it.
TEST_F(Shrink, EndsThoughItsCoordinatorHasNotMadeTheParent) {
  Group& group = make(100, {0, 1, 2}, false);
  for (const size_t rank : {1, 2}) {
    EXPECT_TRUE(group.join(rank).ok());
    call(group.rank(rank), {});
  }
  cluster_->world().run_for(320 * kSecond);
  for (const size_t rank : {1, 2}) {
    EXPECT_EQ(result(group.rank(rank)).code(), Code::timeout);
    EXPECT_EQ(result(group.rank(rank)).ranks(), Ranks{Rank(0)});
  }
  EXPECT_TRUE(group.join(0).ok());
  for (const size_t rank : {0, 1, 2}) call(group.rank(rank), {});
  ASSERT_TRUE(within(
      kSoon, [&] { return over(group.rank(0)) && over(group.rank(1)) && over(group.rank(2)); }));
  for (const size_t rank : {0, 1, 2}) {
    EXPECT_TRUE(result(group.rank(rank)).ok()) << result(group.rank(rank)).message();
  }
}

// The news that it is excluded reaches a rank whose own call is on its way.
TEST_F(Shrink, EndsTheCallOfARankThatIsExcludedMeanwhile) {
  for (const int rank : {0, 1, 2}) call(first(rank), {Rank(3)});
  call(first(3), {});
  ASSERT_TRUE(within(kSoon, [&] { return over(first(0)) && over(first(2)) && over(first(3)); }));
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(result(first(rank)).ok());
  EXPECT_FALSE(result(first(3)).ok());
  EXPECT_EQ(first(3).begin_shrink({}).ranks(), Ranks{});
}

TEST_F(Shrink, TellsBothListsThatDiffer) {
  call(first(0), {Rank(3)});
  call(first(1), {Rank(3)});
  call(first(2), {});
  ASSERT_TRUE(within(kSoon, [&] { return over(first(0)) && over(first(1)) && over(first(2)); }));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(result(first(rank)).code(), Code::invalid_usage);
    EXPECT_EQ(result(first(rank)).message(),
              "the lists of excluded ranks differ: this rank excludes rank 3, rank 2 (host h2, pid "
              "0) excludes nobody");
  }
  EXPECT_NE(result(first(2)).message().find("this rank excludes nobody"), std::string::npos);
  for (const Status& each : shrink({0, 1, 2}, {Rank(3)})) EXPECT_TRUE(each.ok()) << each.message();
}

// The communicator that is left goes on, and ends without them.
TEST_F(Shrink, NeedsNoExcludedRank) {
  Group& all = make(100, {0, 1, 2, 3});
  for (const size_t rank : {0, 1, 2}) call(all.rank(rank), {Rank(3)});
  ASSERT_TRUE(within(kSoon, [&] { return over(all.rank(0)) && over(all.rank(1)); }));
  for (const size_t rank : {0, 1, 2}) all.rank(rank).waive({Rank(3)});
  expect_works(all);
  // The excluded rank ends it while the others keep it.
  all.begin_goodbye(3);
  ASSERT_TRUE(within(kSoon, [&] { return all.rank(3).goodbyes_missing().empty(); }));
  for (const size_t rank : {0, 1, 2}) all.begin_goodbye(rank);
  EXPECT_TRUE(within(kSoon, [&] { return all.parted(); }));
}

TEST_F(Shrink, EndsWithoutAnExcludedRankThatIsStopped) {
  Group& all = make(100, {0, 1, 2, 3});
  cluster_->world().deschedule(cluster_->node(3).actor, 30 * kSecond);
  for (const size_t rank : {0, 1, 2}) call(all.rank(rank), {Rank(3)});
  ASSERT_TRUE(within(kSoon, [&] { return over(all.rank(0)) && over(all.rank(1)); }));
  for (const size_t rank : {0, 1, 2}) all.rank(rank).waive({Rank(3)});
  for (const size_t rank : {0, 1, 2}) all.begin_goodbye(rank);
  EXPECT_TRUE(within(kSoon, [&] {
    return all.rank(0).goodbye_done() && all.rank(1).goodbye_done() && all.rank(2).goodbye_done();
  }));
  for (const size_t rank : {0, 1, 2}) all.destroy(rank);
  // When it goes on, it hears that it is excluded.
  cluster_->world().run_for(31 * kSecond);
  const Status refused = all.rank(3).begin_shrink({});
  EXPECT_EQ(refused.code(), Code::remote);
  EXPECT_NE(refused.message().find("ranks 0, 1, 2 made a communicator without this rank"),
            std::string::npos)
      << refused.message();
}

TEST_F(Shrink, NamesARankThatHasLeftInstead) {
  Group& group = make(100, {0, 1, 2, 3});
  kill(3);
  ASSERT_TRUE(within(5 * kSecond, [&] { return group.failed(0) && group.failed(1); }));
  group.destroy(2);
  for (const size_t rank : {0, 1}) call(group.rank(rank), {Rank(3)});
  ASSERT_TRUE(within(kSoon, [&] { return over(group.rank(0)) && over(group.rank(1)); }));
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(result(group.rank(rank)).ranks(), Ranks{Rank(2)});
    EXPECT_NE(result(group.rank(rank)).message().find("has left"), std::string::npos);
  }
  for (const size_t rank : {0, 1}) call(group.rank(rank), {Rank(2), Rank(3)});
  ASSERT_TRUE(within(kSoon, [&] { return over(group.rank(0)) && over(group.rank(1)); }));
  expect_works(make(1000, {0, 1}));
}

// One rank has made it and ends the parent before the coordinator's word has reached another one.
// Then the coordinator dies.
TEST_F(Shrink, IsMadeOnAllThoughOneLeavesAtOnceAndTheCoordinatorDies) {
  Group& group = make(100, {0, 1, 2, 3});
  kill(3);
  ASSERT_TRUE(within(5 * kSecond, [&] { return group.failed(0) && group.failed(1); }));
  for (const size_t rank : {0, 1, 2}) call(group.rank(rank), {Rank(3)});
  cluster_->world().deschedule(cluster_->node(2).actor, 100 * kMillisecond);
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [&] { return over(group.rank(1)); }));
  ASSERT_TRUE(result(group.rank(1)).ok());
  Group& left = make(1000, {0, 1, 2}, false);
  EXPECT_TRUE(left.join(1).ok());
  group.destroy(1);
  kill(0);
  ASSERT_TRUE(within(5 * kSecond, [&] { return over(group.rank(2)); }));
  EXPECT_TRUE(result(group.rank(2)).ok()) << result(group.rank(2)).message();
}

// The last communicator that lives ends in order, and the links stay for the one that has failed.
TEST_F(Shrink, FindsItsLinksAfterTheOthersHaveEnded) {
  Group& pair = make(100, {0, 1});
  kill(3);
  ASSERT_TRUE(wait_for_failure({0, 1, 2}));
  expect_works(pair);
  EXPECT_TRUE(pair.end());
  for (const Status& each : shrink({0, 1, 2}, {Rank(3)})) EXPECT_TRUE(each.ok()) << each.message();
  expect_works(make(1000, {0, 1, 2}));
}

TEST_F(Shrink, TellsTheEndOfMemoryAndNotTheDeathBeforeIt) {
  kill(3);
  ASSERT_TRUE(wait_for_failure({0, 1, 2}));
  for (const Status& each : shrink({0, 1, 2}, {Rank(3)})) ASSERT_TRUE(each.ok());
  Group& three = make(1000, {2, 1, 0});
  three.rank(0).fail_by_exception(std::bad_alloc());
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [&] { return three.failed(1) && three.failed(2); }));
  const Status& why = three.rank(1).failure();
  EXPECT_NE(why.message().find("run out of memory"), std::string::npos) << why.message();
  EXPECT_EQ(why.ranks(), Ranks{Rank(0)});
}

TEST_F(Shrink, WaitsOutADarkNetwork) {
  kill(3);
  ASSERT_TRUE(wait_for_failure({0, 1, 2}));
  for (SimNic* nic : cluster_->node(1).nics) cluster_->fabric().pull(*nic);
  for (const int rank : {0, 1, 2}) call(first(rank), {Rank(3)});
  cluster_->world().run_for(5 * kSecond);
  for (SimNic* nic : cluster_->node(1).nics) cluster_->fabric().fix(*nic);
  ASSERT_TRUE(
      within(20 * kSecond, [&] { return over(first(0)) && over(first(1)) && over(first(2)); }));
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(result(first(rank)).ok());
  expect_works(make(1000, {0, 1, 2}));
}

TEST_F(Shrink, OfACommunicatorThatIsAbortedMeanwhileIsNotMade) {
  for (const int rank : {0, 1}) call(first(rank), {Rank(3)});
  first(1).abort("enough");
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [&] { return over(first(0)) && over(first(1)); }));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(result(first(rank)).code(), Code::remote);
    EXPECT_EQ(result(first(rank)).ranks(), Ranks{Rank(1)});
  }
}

}  // namespace
}  // namespace r2ccl::sim
