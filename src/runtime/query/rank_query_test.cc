#include "runtime/query/rank_query.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/limits.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 7 * kSecond;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A job whose ranks answer when the test lets them. Rank 0 asks.
class Asked {
 public:
  explicit Asked(int32_t ranks, QueryTopic topic = QueryTopic::status)
      : topic_(topic), query(Rank(0), ranks, callbacks()) {
    RankQuery::Handler handler;
    handler.question = [this](Rank from, uint32_t number, std::span<const std::byte> body) {
      questions.emplace_back(from, number, text_of(body));
      return own_reply;
    };
    handler.answer = [this](Rank from, uint32_t number,
                            std::span<const std::byte> body) -> Result<std::string> {
      if (text_of(body) == "bad") return Status(Code::remote, "a bad answer");
      heard.emplace_back(from, number, text_of(body));
      return text_of(body);
    };
    query.serve(topic, handler);
  }
  void start(TimeNs now = kStart) { query.ask_all(topic_, bytes_of("question"), "own", now); }
  void reply(int32_t rank, uint32_t number, const std::string& text) {
    const auto body = bytes_of(text);
    query.on_answer(Rank(rank), encode(QueryMessage{topic_, number, body}));
  }
  uint32_t number() const { return asked.back().second; }
  void answer(int32_t rank) { reply(rank, number(), "answer of " + std::to_string(rank)); }
  bool running() const { return query.running(topic_); }
  const RankQuery::Member& member(int32_t rank) const {
    return query.members(topic_)[static_cast<size_t>(rank)];
  }

  using Told = std::tuple<Rank, uint32_t, std::string>;
  std::vector<std::pair<int32_t, uint32_t>> asked;
  std::vector<uint64_t> subjects;
  std::vector<Told> questions;
  std::vector<Told> answers;
  std::vector<Told> heard;
  std::map<int32_t, Reachability> known;
  Result<RankQuery::Reply> own_reply{RankQuery::Reply(bytes_of("here"))};

 private:
  RankQuery::Callbacks callbacks() {
    RankQuery::Callbacks callbacks;
    callbacks.ask = [this](Rank rank, QueryTopic topic, uint64_t subject,
                           const RankQuery::Bytes& body) {
      const auto message = decode_query_message(body);
      EXPECT_TRUE(message.ok() && message.value().topic == topic && topic == topic_);
      asked.emplace_back(rank.value(), message.value().number);
      subjects.push_back(subject);
      const auto found = known.find(rank.value());
      return found == known.end() ? Reachability::no_answer : found->second;
    };
    callbacks.answer = [this](Rank rank, uint64_t, const RankQuery::Bytes& body) {
      const auto message = decode_query_message(body);
      EXPECT_TRUE(message.ok() && message.value().topic == topic_);
      answers.emplace_back(rank, message.value().number, text_of(message.value().body));
    };
    return callbacks;
  }

  const QueryTopic topic_;

 public:
  RankQuery query;
};

TEST(RankQuery, EndsWhenEverybodyHasAnswered) {
  Asked job(3);
  job.start();
  EXPECT_EQ(job.asked.size(), 2u);
  job.answer(1);
  job.query.progress(kStart);
  EXPECT_TRUE(job.running());
  job.answer(2);
  EXPECT_LE(job.query.next_timeout(), kStart);
  job.query.progress(kStart + 5);
  EXPECT_FALSE(job.running());
  EXPECT_EQ(job.query.ended_at(QueryTopic::status), kStart + 5);
  EXPECT_EQ(job.member(0).answer, "own");
  EXPECT_EQ(job.member(2).answer, "answer of 2");
  EXPECT_EQ(job.member(2).reachability, Reachability::answered);
}

TEST(RankQuery, OfOneRankEndsAtOnce) {
  Asked job(1);
  job.start();
  EXPECT_FALSE(job.running());
  EXPECT_EQ(job.member(0).answer, "own");
}

TEST(RankQuery, WaitsNoLongerThanItsBoundForASilentRank) {
  Asked job(3);
  job.start();
  job.answer(1);
  job.query.progress(kStart);
  EXPECT_EQ(job.query.next_timeout(), kStart + limits::kStatusQueryAnswerTime);
  job.query.progress(kStart + limits::kStatusQueryAnswerTime - 1);
  EXPECT_TRUE(job.running());
  job.query.progress(kStart + limits::kStatusQueryAnswerTime);
  EXPECT_FALSE(job.running());
  EXPECT_EQ(job.member(1).reachability, Reachability::answered);
  EXPECT_EQ(job.member(2).reachability, Reachability::no_answer);
}

TEST(RankQuery, DoesNotWaitForRanksThatAreKnownToBeGone) {
  Asked job(4);
  job.known = {{1, Reachability::dead}, {2, Reachability::left}, {3, Reachability::cut_off}};
  job.start();
  EXPECT_FALSE(job.running());
  EXPECT_EQ(job.member(1).reachability, Reachability::dead);
  EXPECT_EQ(job.member(2).reachability, Reachability::left);
  EXPECT_EQ(job.member(3).reachability, Reachability::cut_off);
}

TEST(RankQuery, AsksAFewAtATimeAndTheNextAsAnswersCome) {
  Asked job(1000);
  job.start();
  EXPECT_EQ(job.asked.size(), limits::kStatusQueryAskedMax);
  for (size_t i = 0; i < job.asked.size(); ++i) {
    EXPECT_TRUE(job.running());
    job.answer(job.asked[i].first);
    job.query.progress(kStart);
  }
  EXPECT_EQ(job.asked.size(), 999u);
  EXPECT_FALSE(job.running());
}

TEST(RankQuery, OfManySilentRanksStillAsksAllAndEnds) {
  Asked job(1000);
  job.start();
  TimeNs now = kStart;
  while (job.running()) {
    ASSERT_GT(job.query.next_timeout(), now);
    now = job.query.next_timeout();
    job.query.progress(now);
  }
  EXPECT_EQ(job.asked.size(), 999u);
  EXPECT_LE(now, kStart + limits::kStatusQueryTimeMax);
}

TEST(RankQuery, IsNoLongerThanItsBoundHoweverManyRanksAreSilent) {
  Asked job(60'000);
  job.start();
  TimeNs now = kStart;
  while (job.running()) {
    now = job.query.next_timeout();
    job.query.progress(now);
  }
  EXPECT_EQ(now, kStart + limits::kStatusQueryTimeMax);
}

TEST(RankQuery, TakesNoAnswerThatItDidNotAskFor) {
  Asked job(1000);
  job.start();
  const uint32_t number = job.number();
  job.reply(1, number + 1, "of a question to come");
  EXPECT_EQ(job.query.refused(), 1u);
  job.reply(999, number, "not asked yet");
  EXPECT_EQ(job.query.refused(), 2u);
  job.reply(0, number, "of itself");
  EXPECT_EQ(job.query.refused(), 3u);
  EXPECT_TRUE(job.heard.empty());
  job.reply(1, number, "bad");
  EXPECT_EQ(job.query.refused(), 4u);
  EXPECT_EQ(job.member(1).reachability, Reachability::no_answer);
  job.reply(1, number, "good");
  job.reply(1, number, "twice");
  EXPECT_EQ(job.query.refused(), 5u);
  EXPECT_EQ(job.heard, (std::vector<Asked::Told>{{Rank(1), number, "good"}}));
  EXPECT_EQ(job.member(1).answer, "good");
  EXPECT_EQ(job.member(999).reachability, Reachability::no_answer);
}

TEST(RankQuery, ForgetsThePreviousOne) {
  Asked job(2);
  job.start();
  const uint32_t first = job.number();
  job.answer(1);
  job.query.progress(kStart);
  job.start(kStart + kSecond);
  EXPECT_NE(job.number(), first);
  EXPECT_EQ(job.member(1).reachability, Reachability::no_answer);
  job.reply(1, first, "late");
  EXPECT_EQ(job.member(1).reachability, Reachability::no_answer);
  EXPECT_EQ(job.query.refused(), 0u) << "a correct rank may be late";
}

TEST(RankQuery, TakesNoAnswerAfterItsEnd) {
  Asked job(2);
  job.start();
  job.query.progress(kStart + limits::kStatusQueryTimeMax);
  job.answer(1);
  EXPECT_EQ(job.member(1).reachability, Reachability::no_answer);
  EXPECT_TRUE(job.heard.empty());
}

TEST(RankQuery, DoesNotWaitForARankThatEndsMeanwhile) {
  Asked job(4);
  job.start();
  job.answer(1);
  job.query.on_end(Rank(2), Reachability::dead);
  job.query.progress(kStart + 1);
  EXPECT_TRUE(job.running());
  job.query.on_end(Rank(1), Reachability::dead);
  job.query.on_end(Rank(3), Reachability::cut_off);
  job.query.progress(kStart + 2);
  EXPECT_FALSE(job.running());
  EXPECT_EQ(job.member(1).reachability, Reachability::answered);
  EXPECT_EQ(job.member(2).reachability, Reachability::dead);
  EXPECT_EQ(job.member(3).reachability, Reachability::cut_off);
}

TEST(RankQuery, AsksTheNextRankInPlaceOfOneThatHasEnded) {
  Asked job(100);
  job.start();
  EXPECT_EQ(job.asked.size(), limits::kStatusQueryAskedMax);
  job.query.on_end(Rank(7), Reachability::dead);
  job.query.progress(kStart);
  EXPECT_EQ(job.asked.size(), limits::kStatusQueryAskedMax + 1);
}

TEST(RankQuery, AnswersAtOnceOrLater) {
  Asked job(3);
  const auto body = bytes_of("how are you");
  const auto question = encode(QueryMessage{QueryTopic::status, 9, body});
  job.query.on_question(Rank(2), question);
  EXPECT_EQ(job.questions, (std::vector<Asked::Told>{{Rank(2), 9, "how are you"}}));
  EXPECT_EQ(job.answers, (std::vector<Asked::Told>{{Rank(2), 9, "here"}}));
  job.own_reply = RankQuery::Reply();
  job.query.on_question(Rank(1), question);
  EXPECT_EQ(job.answers.size(), 1u);
  job.query.answer(QueryTopic::status, Rank(1), 9, bytes_of("now"));
  EXPECT_EQ(job.answers.back(), (Asked::Told{Rank(1), 9, "now"}));
}

TEST(RankQuery, CountsTheQuestionsThatItsHandlerRefuses) {
  Asked job(3);
  job.own_reply = Status(Code::remote, "it must not ask");
  job.query.on_question(Rank(1), encode(QueryMessage{QueryTopic::status, 1, {}}));
  EXPECT_EQ(job.query.refused(), 1u);
  EXPECT_TRUE(job.answers.empty());
}

TEST(RankQuery, LeavesATopicWithoutAHandlerToOthers) {
  Asked job(3);
  job.start();
  const auto other = encode(QueryMessage{QueryTopic::drain, job.number(), {}});
  job.query.on_question(Rank(1), other);
  job.query.on_answer(Rank(1), other);
  EXPECT_TRUE(job.questions.empty());
  EXPECT_TRUE(job.heard.empty());
  EXPECT_EQ(job.query.refused(), 0u);
}

TEST(RankQuery, RefusesBytesThatAreNoMessage) {
  Asked job(3);
  std::vector<std::byte> bytes = encode(QueryMessage{QueryTopic::status, 1, {}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    job.query.on_question(Rank(1), std::span(bytes).first(size));
    job.query.on_answer(Rank(1), std::span(bytes).first(size));
    EXPECT_EQ(job.query.refused(), 2 * (size + 1));
  }
  bytes[0] = std::byte{kQueryTopics};
  job.query.on_question(Rank(1), bytes);
  EXPECT_EQ(job.query.refused(), 2 * bytes.size() + 1);
  EXPECT_TRUE(job.questions.empty());
}

// Each rank's answer counts once, and other ranks' do not.
TEST(RankQuery, OfAFewRanksIsOpenUntilTheyHaveAnswered) {
  Asked job(10, QueryTopic::probe);
  job.query.ask(QueryTopic::probe, 5, {Rank(7), Rank(3)}, bytes_of("hosts"), 5);
  EXPECT_EQ(job.asked, (std::vector<std::pair<int32_t, uint32_t>>{{3, 5}, {7, 5}}));
  EXPECT_EQ(job.query.next_timeout(), kNever);
  job.reply(4, 5, "not asked");
  EXPECT_EQ(job.query.refused(), 1u);
  job.answer(7);
  job.reply(7, 5, "again");
  EXPECT_EQ(job.query.refused(), 2u);
  job.answer(3);
  job.answer(3);
  EXPECT_EQ(job.query.refused(), 2u) << "it has ended";
  EXPECT_EQ(job.heard.size(), 2u);
}

TEST(RankQuery, OfAFewRanksEndsWithTheLastOfThem) {
  Asked job(10, QueryTopic::probe);
  job.known = {{2, Reachability::dead}};
  job.query.ask(QueryTopic::probe, 1, {Rank(1), Rank(2)}, {}, 1);
  job.query.on_end(Rank(1), Reachability::dead);
  job.answer(1);
  job.answer(2);
  EXPECT_TRUE(job.heard.empty());
  job.query.ask(QueryTopic::probe, 2, {Rank(2)}, {}, 2);
  job.answer(2);
  EXPECT_TRUE(job.heard.empty()) << "it never began";
}

TEST(RankQuery, GivesUpTheOldestOfTooManyProbes) {
  constexpr uint32_t kMore = 3;
  Asked job(4, QueryTopic::probe);
  for (uint32_t number = 1; number <= limits::kProbeQuestionsMax + kMore; ++number) {
    job.query.ask(QueryTopic::probe, number, {Rank(1)}, {}, number);
  }
  for (uint32_t number = 1; number <= limits::kProbeQuestionsMax + kMore; ++number) {
    job.reply(1, number, "answer");
  }
  EXPECT_EQ(job.heard.size(), limits::kProbeQuestionsMax);
  EXPECT_EQ(std::get<1>(job.heard.front()), kMore + 1);
}

TEST(RankQuery, OfAWaitTakesEachFurtherAnswerUntilTheRankEnds) {
  Asked job(4, QueryTopic::wait);
  job.query.ask(QueryTopic::wait, 2, {Rank(2)}, {});
  job.query.ask(QueryTopic::wait, 3, {Rank(3)}, {});
  job.reply(2, 2, "behind");
  job.query.ask(QueryTopic::wait, 2, {Rank(2)}, {});
  job.reply(2, 2, "waits");
  job.reply(2, 2, "done");
  EXPECT_EQ(job.heard.size(), 3u);
  job.reply(3, 2, "a question to another rank");
  EXPECT_EQ(job.query.refused(), 1u);
  job.query.on_end(Rank(2), Reachability::left);
  job.reply(2, 2, "from the grave");
  EXPECT_EQ(job.heard.size(), 3u);
}

TEST(RankQuery, KeepsTheSlotsOfItsTopicsApart) {
  EXPECT_NE(query_subject(QueryTopic::status, 0), query_subject(QueryTopic::drain, 0));
  EXPECT_LT(query_subject(QueryTopic::status, UINT64_MAX), query_subject(QueryTopic::drain, 0));
  EXPECT_NE(query_subject(QueryTopic::probe, 1), query_subject(QueryTopic::probe, 2));
  Asked job(3, QueryTopic::drain);
  job.query.ask_all(QueryTopic::drain, {}, "own", kStart, 77);
  EXPECT_EQ(job.subjects, std::vector(2, query_subject(QueryTopic::drain, 77)));
}

}  // namespace
}  // namespace r2ccl
