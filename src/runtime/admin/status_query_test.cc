#include "runtime/admin/status_query.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/limits.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 7 * kSecond;

// A job whose ranks answer when the test lets them.
class Asked {
 public:
  explicit Asked(int32_t ranks)
      : query(Rank(0), ranks, [this](Rank rank, uint32_t number) {
          asked.emplace_back(rank.value(), number);
          const auto found = known.find(rank.value());
          return found == known.end() ? Reachability::no_answer : found->second;
        }) {}
  void answer(int32_t rank) {
    query.on_answer(Rank(rank), asked.back().second, "answer of " + std::to_string(rank));
  }
  const StatusQuery::Member& member(int32_t rank) const {
    return query.members()[static_cast<size_t>(rank)];
  }

  std::vector<std::pair<int32_t, uint32_t>> asked;
  std::map<int32_t, Reachability> known;
  StatusQuery query;
};

TEST(StatusQuery, EndsWhenEverybodyHasAnswered) {
  Asked job(3);
  job.query.start(kStart, "own");
  EXPECT_EQ(job.asked.size(), 2u);
  job.answer(1);
  job.query.progress(kStart);
  EXPECT_TRUE(job.query.running());
  job.answer(2);
  EXPECT_LE(job.query.next_timeout(), kStart);
  job.query.progress(kStart + 5);
  EXPECT_FALSE(job.query.running());
  EXPECT_EQ(job.query.ended_at(), kStart + 5);
  EXPECT_EQ(job.member(0).answer, "own");
  EXPECT_EQ(job.member(2).answer, "answer of 2");
  EXPECT_EQ(job.member(2).reachability, Reachability::answered);
}

TEST(StatusQuery, OfOneRankEndsAtOnce) {
  Asked job(1);
  job.query.start(kStart, "own");
  EXPECT_FALSE(job.query.running());
  EXPECT_EQ(job.member(0).answer, "own");
}

TEST(StatusQuery, WaitsNoLongerThanItsBoundForASilentRank) {
  Asked job(3);
  job.query.start(kStart, "own");
  job.answer(1);
  EXPECT_EQ(job.query.next_timeout(), kStart + limits::kStatusQueryAnswerTime);
  job.query.progress(kStart + limits::kStatusQueryAnswerTime - 1);
  EXPECT_TRUE(job.query.running());
  job.query.progress(kStart + limits::kStatusQueryAnswerTime);
  EXPECT_FALSE(job.query.running());
  EXPECT_EQ(job.member(1).reachability, Reachability::answered);
  EXPECT_EQ(job.member(2).reachability, Reachability::no_answer);
}

TEST(StatusQuery, DoesNotWaitForRanksThatAreKnownToBeGone) {
  Asked job(4);
  job.known = {{1, Reachability::dead}, {2, Reachability::left}, {3, Reachability::cut_off}};
  job.query.start(kStart, "own");
  EXPECT_FALSE(job.query.running());
  EXPECT_EQ(job.member(1).reachability, Reachability::dead);
  EXPECT_EQ(job.member(2).reachability, Reachability::left);
  EXPECT_EQ(job.member(3).reachability, Reachability::cut_off);
}

TEST(StatusQuery, AsksAFewAtATimeAndTheNextAsAnswersCome) {
  Asked job(1000);
  job.query.start(kStart, "own");
  EXPECT_EQ(job.asked.size(), limits::kStatusQueryAskedMax);
  for (size_t i = 0; i < job.asked.size(); ++i) {
    EXPECT_TRUE(job.query.running());
    job.answer(job.asked[i].first);
    job.query.progress(kStart);
  }
  EXPECT_EQ(job.asked.size(), 999u);
  EXPECT_FALSE(job.query.running());
}

TEST(StatusQuery, OfManySilentRanksStillAsksAllAndEnds) {
  Asked job(1000);
  job.query.start(kStart, "own");
  TimeNs now = kStart;
  while (job.query.running()) {
    ASSERT_GT(job.query.next_timeout(), now);
    now = job.query.next_timeout();
    job.query.progress(now);
  }
  EXPECT_EQ(job.asked.size(), 999u);
  EXPECT_LE(now, kStart + limits::kStatusQueryTimeMax);
}

TEST(StatusQuery, IsNoLongerThanItsBoundHoweverManyRanksAreSilent) {
  Asked job(60'000);
  job.query.start(kStart, "own");
  TimeNs now = kStart;
  while (job.query.running()) {
    now = job.query.next_timeout();
    job.query.progress(now);
  }
  EXPECT_EQ(now, kStart + limits::kStatusQueryTimeMax);
}

TEST(StatusQuery, TakesNoAnswerThatItDidNotAskFor) {
  Asked job(1000);
  job.query.start(kStart, "own");
  const uint32_t number = job.asked.back().second;
  EXPECT_TRUE(job.query.expects(Rank(1), number));
  EXPECT_FALSE(job.query.expects(Rank(1), number + 1));
  EXPECT_FALSE(job.query.expects(Rank(999), number)) << "it was not asked yet";
  EXPECT_FALSE(job.query.expects(Rank(0), number)) << "itself";
  job.answer(1);
  EXPECT_FALSE(job.query.expects(Rank(1), number)) << "twice";
  job.query.on_answer(Rank(2), number + 1, "late");
  EXPECT_EQ(job.member(2).reachability, Reachability::no_answer);
}

TEST(StatusQuery, ForgetsThePreviousOne) {
  Asked job(2);
  job.query.start(kStart, "own");
  const uint32_t first = job.asked.back().second;
  job.answer(1);
  job.query.progress(kStart);
  job.query.start(kStart + kSecond, "own again");
  EXPECT_NE(job.asked.back().second, first);
  EXPECT_EQ(job.member(1).reachability, Reachability::no_answer);
  job.query.on_answer(Rank(1), first, "late");
  EXPECT_EQ(job.member(1).reachability, Reachability::no_answer);
}

}  // namespace
}  // namespace r2ccl
