#include "runtime/admin/job_survey.h"

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
      : survey(Rank(0), ranks, [this](Rank rank, uint32_t number) {
          asked.emplace_back(rank.value(), number);
          const auto found = known.find(rank.value());
          return found == known.end() ? Presence::no_answer : found->second;
        }) {}
  void answer(int32_t rank) {
    survey.on_answer(Rank(rank), asked.back().second, "answer of " + std::to_string(rank));
  }
  const JobSurvey::Member& member(int32_t rank) const {
    return survey.members()[static_cast<size_t>(rank)];
  }

  std::vector<std::pair<int32_t, uint32_t>> asked;
  std::map<int32_t, Presence> known;
  JobSurvey survey;
};

TEST(JobSurvey, EndsWhenEverybodyHasAnswered) {
  Asked job(3);
  job.survey.start(kStart, "own");
  EXPECT_EQ(job.asked.size(), 2u);
  job.answer(1);
  job.survey.progress(kStart);
  EXPECT_TRUE(job.survey.running());
  job.answer(2);
  EXPECT_LE(job.survey.next_timeout(), kStart);
  job.survey.progress(kStart + 5);
  EXPECT_FALSE(job.survey.running());
  EXPECT_EQ(job.survey.ended_at(), kStart + 5);
  EXPECT_EQ(job.member(0).answer, "own");
  EXPECT_EQ(job.member(2).answer, "answer of 2");
  EXPECT_EQ(job.member(2).presence, Presence::answered);
}

TEST(JobSurvey, OfOneRankEndsAtOnce) {
  Asked job(1);
  job.survey.start(kStart, "own");
  EXPECT_FALSE(job.survey.running());
  EXPECT_EQ(job.member(0).answer, "own");
}

TEST(JobSurvey, WaitsNoLongerThanItsBoundForASilentRank) {
  Asked job(3);
  job.survey.start(kStart, "own");
  job.answer(1);
  EXPECT_EQ(job.survey.next_timeout(), kStart + limits::kSurveyAnswerTime);
  job.survey.progress(kStart + limits::kSurveyAnswerTime - 1);
  EXPECT_TRUE(job.survey.running());
  job.survey.progress(kStart + limits::kSurveyAnswerTime);
  EXPECT_FALSE(job.survey.running());
  EXPECT_EQ(job.member(1).presence, Presence::answered);
  EXPECT_EQ(job.member(2).presence, Presence::no_answer);
}

TEST(JobSurvey, DoesNotWaitForRanksThatAreKnownToBeGone) {
  Asked job(4);
  job.known = {{1, Presence::dead}, {2, Presence::left}, {3, Presence::cut_off}};
  job.survey.start(kStart, "own");
  EXPECT_FALSE(job.survey.running());
  EXPECT_EQ(job.member(1).presence, Presence::dead);
  EXPECT_EQ(job.member(2).presence, Presence::left);
  EXPECT_EQ(job.member(3).presence, Presence::cut_off);
}

TEST(JobSurvey, AsksAFewAtATimeAndTheNextAsAnswersCome) {
  Asked job(1000);
  job.survey.start(kStart, "own");
  EXPECT_EQ(job.asked.size(), limits::kSurveyAskedMax);
  for (size_t i = 0; i < job.asked.size(); ++i) {
    EXPECT_TRUE(job.survey.running());
    job.answer(job.asked[i].first);
    job.survey.progress(kStart);
  }
  EXPECT_EQ(job.asked.size(), 999u);
  EXPECT_FALSE(job.survey.running());
}

TEST(JobSurvey, OfManySilentRanksStillAsksAllAndEnds) {
  Asked job(1000);
  job.survey.start(kStart, "own");
  TimeNs now = kStart;
  while (job.survey.running()) {
    ASSERT_GT(job.survey.next_timeout(), now);
    now = job.survey.next_timeout();
    job.survey.progress(now);
  }
  EXPECT_EQ(job.asked.size(), 999u);
  EXPECT_LE(now, kStart + limits::kSurveyTimeMax);
}

TEST(JobSurvey, IsNoLongerThanItsBoundHoweverManyRanksAreSilent) {
  Asked job(60'000);
  job.survey.start(kStart, "own");
  TimeNs now = kStart;
  while (job.survey.running()) {
    now = job.survey.next_timeout();
    job.survey.progress(now);
  }
  EXPECT_EQ(now, kStart + limits::kSurveyTimeMax);
}

TEST(JobSurvey, TakesNoAnswerThatItDidNotAskFor) {
  Asked job(1000);
  job.survey.start(kStart, "own");
  const uint32_t number = job.asked.back().second;
  EXPECT_TRUE(job.survey.expects(Rank(1), number));
  EXPECT_FALSE(job.survey.expects(Rank(1), number + 1));
  EXPECT_FALSE(job.survey.expects(Rank(999), number)) << "it was not asked yet";
  EXPECT_FALSE(job.survey.expects(Rank(0), number)) << "itself";
  job.answer(1);
  EXPECT_FALSE(job.survey.expects(Rank(1), number)) << "twice";
  job.survey.on_answer(Rank(2), number + 1, "late");
  EXPECT_EQ(job.member(2).presence, Presence::no_answer);
}

TEST(JobSurvey, ForgetsThePreviousOne) {
  Asked job(2);
  job.survey.start(kStart, "own");
  const uint32_t first = job.asked.back().second;
  job.answer(1);
  job.survey.progress(kStart);
  job.survey.start(kStart + kSecond, "own again");
  EXPECT_NE(job.asked.back().second, first);
  EXPECT_EQ(job.member(1).presence, Presence::no_answer);
  job.survey.on_answer(Rank(1), first, "late");
  EXPECT_EQ(job.member(1).presence, Presence::no_answer);
}

}  // namespace
}  // namespace r2ccl
