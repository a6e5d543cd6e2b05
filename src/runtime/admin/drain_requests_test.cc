#include "runtime/admin/drain_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/limits.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 7 * kSecond;
const std::string kLine = "drain start nic1 h1\n";

TEST(DrainRequest, IsAVerbANicAndAHostThatMayHaveSpaces) {
  EXPECT_EQ(parse_drain_request("drain start nic1 h1\n"),
            (DrainRequest{DrainVerb::drain, "nic1", "h1"}));
  EXPECT_EQ(parse_drain_request("drain undo eth0.7 my old host\n"),
            (DrainRequest{DrainVerb::undo, "eth0.7", "my old host"}));
  EXPECT_EQ(parse_drain_request("drain check a b\n"), (DrainRequest{DrainVerb::check, "a", "b"}));
  EXPECT_EQ(parse_drain_request("drain start:00000000000000ff a b\n"),
            (DrainRequest{DrainVerb::drain, "a", "b", 255}));
  EXPECT_EQ(parse_drain_request("drain back:ffffffffffffffff a b\n"),
            (DrainRequest{DrainVerb::take_back, "a", "b", UINT64_MAX}));
}

TEST(DrainRequest, IsNothingElse) {
  for (const std::string line :
       {"drain start nic1 h1", "drain start nic1\n", "drain start\n", "drain\n", "drain stop a b\n",
        "drain start  b\n", "drain start a \n", "drain start a b\nc\n", "report\n", "\n", "",
        // Invalid tickets, verbs that need a ticket, and verbs that take none.
        "drain start: a b\n", "drain start:0 a b\n", "drain start:x a b\n", "drain start:1g a b\n",
        "drain start:-1 a b\n", "drain start:1ffffffffffffffff a b\n", "drain back a b\n",
        "drain check:1 a b\n", "drain undo:1 a b\n"}) {
    EXPECT_FALSE(parse_drain_request(line)) << line;
  }
  EXPECT_FALSE(
      parse_drain_request("drain start " + std::string(kDrainNicBytesMax + 1, 'n') + " h\n"));
}

std::vector<RankInfo> rank_table() {
  std::vector<RankInfo> rank_table(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    RankInfo& info = rank_table[rank];
    info.rank = Rank(static_cast<int32_t>(rank));
    info.host_name = rank == 0 ? "h0" : "h1";
    info.host[0] = static_cast<std::byte>(rank == 0 ? 1 : 2);
    info.nics.resize(2);
    info.nics[0].name = "nic0";
    info.nics[1].name = rank == 2 ? "nic7" : "nic1";
  }
  return rank_table;
}

// Requests whose other ranks answer when the test says so.
class ScriptedRequests {
 public:
  std::optional<std::string> ask(const std::string& line, TimeNs now = kStart,
                                 uint64_t client = 1) {
    progress(now);
    return requests.answer(client, line, rank_table_, now);
  }
  void progress(TimeNs now) {
    query.progress(now);
    requests.progress(now);
  }
  void reply(int32_t rank, uint32_t number, const DrainTally& tally) {
    const auto body = encode(tally);
    query.on_answer(Rank(rank), encode(QueryMessage{QueryTopic::drain, number, body}));
  }
  void answer(int32_t rank, uint32_t marked) {
    reply(rank, numbers.back(), {.paths = 2, .marked = marked});
  }
  TimeNs next_timeout() const { return std::min(query.next_timeout(), requests.next_timeout()); }

  std::vector<RankInfo> rank_table_ = rank_table();
  std::vector<DrainQuestion> asked;
  std::vector<uint32_t> numbers;  // of these
  std::vector<uint64_t> subjects;
  std::vector<DrainTally> answers;
  std::vector<DrainQuestion> acted;
  RankQuery query{Rank(0), 3, callbacks()};
  DrainRequests requests{query, 3, [this](const DrainQuestion& question) {
                           acted.push_back(question);
                           return DrainTally{.paths = 4, .marked = 4};
                         }};

 private:
  RankQuery::Callbacks callbacks() {
    RankQuery::Callbacks callbacks;
    callbacks.ask = [this](Rank, QueryTopic, uint64_t subject, const RankQuery::Bytes& bytes) {
      const auto message = decode_query_message(bytes);
      asked.push_back(decode_drain_question(message.value().body).value());
      numbers.push_back(message.value().number);
      subjects.push_back(subject);
      return Reachability::no_answer;
    };
    callbacks.answer = [this](Rank, uint64_t, const RankQuery::Bytes& bytes) {
      answers.push_back(decode_drain_tally(decode_query_message(bytes).value().body).value());
    };
    return callbacks;
  }
};

bool has(const std::optional<std::string>& text, const std::string& part) {
  return text && text->find(part) != std::string::npos;
}

TEST(DrainRequests, AsksEveryRankAndReportsEachAnswer) {
  ScriptedRequests scripted;
  EXPECT_FALSE(scripted.ask(kLine));
  ASSERT_EQ(scripted.asked.size(), 2u);
  EXPECT_EQ(scripted.asked[0].verb, DrainVerb::drain);
  EXPECT_EQ(scripted.asked[0].host, Rank(1));
  EXPECT_EQ(scripted.asked[0].nic, "nic1");
  EXPECT_EQ(scripted.acted.size(), 1u);
  scripted.answer(1, 2);
  scripted.progress(kStart + 1);
  EXPECT_FALSE(scripted.ask(kLine, kStart + 1));
  scripted.answer(2, 1);
  scripted.progress(kStart + 2);
  const auto told = scripted.ask(kLine, kStart + 2);
  EXPECT_TRUE(has(told, "{\"host\":\"h1\",\"nic\":\"nic1\",\"ranks\":[{\"rank\":0,"));
  EXPECT_TRUE(has(told,
                  "\"rank\":2,\"host\":\"h1\",\"presence\":\"answered\",\"tally\":{\"paths\":2,"
                  "\"up\":0,\"marked\":1,"));
  EXPECT_EQ(scripted.asked.size(), 2u);
  // An answer that was fetched is not repeated: the state may have changed.
  EXPECT_FALSE(scripted.ask(kLine, kStart + 3, 2));
  EXPECT_EQ(scripted.asked.size(), 4u);
  EXPECT_GT(scripted.numbers[2], scripted.numbers[0]);
}

// A question that changes nothing gives way to the next one. A rank must read every command.
TEST(DrainRequests, ReplacesUnreadChecksAndNoOtherCommand) {
  ScriptedRequests scripted;
  TimeNs now = kStart;
  uint64_t client = 0;
  for (const std::string line :
       {"check nic1", "check nic0", "start nic1", "undo nic1", "start nic0", "start nic1"}) {
    EXPECT_FALSE(scripted.ask("drain " + line + " h1\n", now, ++client));
    scripted.answer(1, 0);
    scripted.answer(2, 0);
    scripted.progress(++now);
    EXPECT_TRUE(scripted.requests.answer(client, "", scripted.rank_table_, now));
    ++now;
  }
  const std::vector<uint64_t>& subjects = scripted.subjects;
  ASSERT_EQ(subjects.size(), 12u);
  EXPECT_EQ(subjects[0], subjects[2]) << "checks";
  EXPECT_EQ(subjects[4], subjects[10]) << "the same command";
  const std::set<uint64_t> apart{subjects[0], subjects[4], subjects[6], subjects[8]};
  EXPECT_EQ(apart.size(), 4u);
}

TEST(DrainRequests, AnswersTheQuestionsOfOtherRanks) {
  ScriptedRequests scripted;
  const auto ask = [&](const DrainQuestion& question) {
    const auto body = encode(question);
    scripted.query.on_question(Rank(1), encode(QueryMessage{QueryTopic::drain, 1, body}));
  };
  const DrainQuestion question{.verb = DrainVerb::drain, .host = Rank(2), .nic = "nic7"};
  ask(question);
  EXPECT_EQ(scripted.acted, std::vector{question});
  ASSERT_EQ(scripted.answers.size(), 1u);
  EXPECT_EQ(scripted.answers[0].marked, 4u);
  for (const Rank unknown : {Rank(3), Rank(-1)}) {
    ask({.verb = DrainVerb::drain, .host = unknown, .nic = "nic7"});
  }
  scripted.query.on_question(Rank(1), encode(QueryMessage{QueryTopic::drain, 1, {}}));
  EXPECT_EQ(scripted.acted.size(), 1u);
  EXPECT_EQ(scripted.answers.size(), 1u);
  EXPECT_EQ(scripted.query.refused(), 3u);
}

TEST(DrainRequests, NamesTheRanksThatDoNotAnswerInTime) {
  ScriptedRequests scripted;
  EXPECT_FALSE(scripted.ask(kLine));
  scripted.answer(2, 2);
  const TimeNs late = kStart + limits::kStatusQueryTimeMax;
  scripted.progress(late);
  EXPECT_TRUE(
      has(scripted.ask(kLine, late), "\"rank\":1,\"host\":\"h1\",\"presence\":\"no answer\"}"));
}

TEST(DrainRequests, KeepsAnotherRequestWaitingAndDoesNotMixTheAnswers) {
  ScriptedRequests scripted;
  EXPECT_FALSE(scripted.ask(kLine, kStart, 1));
  const std::string undo = "drain undo nic1 h1\n";
  EXPECT_FALSE(scripted.ask(undo, kStart, 2));
  EXPECT_EQ(scripted.asked.size(), 2u);
  scripted.answer(1, 2);
  scripted.answer(2, 2);
  // The client in the slot fetches its answer, though the other client is called before it.
  scripted.progress(kStart + 1);
  EXPECT_FALSE(scripted.requests.answer(2, undo, scripted.rank_table_, kStart + 1));
  EXPECT_TRUE(
      has(scripted.requests.answer(1, kLine, scripted.rank_table_, kStart + 1), "\"marked\":2"));
  EXPECT_EQ(scripted.acted.size(), 1u);
  EXPECT_EQ(scripted.next_timeout(), 0) << "the other's turn has come";
  EXPECT_FALSE(scripted.ask(undo, kStart + 1, 2));
  EXPECT_EQ(scripted.asked.back().verb, DrainVerb::undo);
  // The answer to an old question.
  scripted.reply(1, scripted.numbers.front(), {});
  scripted.answer(1, 0);
  scripted.answer(2, 0);
  EXPECT_TRUE(has(scripted.ask(undo, kStart + 2, 2), "\"marked\":0"));
  EXPECT_EQ(scripted.acted.size(), 2u) << "each once";
}

// An equal request does not get the earlier answer either: another client may have undone the
// command in the meantime, here or at another rank.
TEST(DrainRequests, DoesNotWaitForAClientThatHasLeft) {
  ScriptedRequests scripted;
  EXPECT_FALSE(scripted.ask(kLine, kStart, 1));
  scripted.answer(1, 2);
  scripted.answer(2, 2);
  EXPECT_FALSE(scripted.ask(kLine, kStart + 1, 2));
  EXPECT_EQ(scripted.acted.size(), 1u);
  const TimeNs due = scripted.next_timeout();
  EXPECT_EQ(due, kStart + 1 + limits::kStatusFreshness);
  EXPECT_FALSE(scripted.ask(kLine, due, 2));
  EXPECT_EQ(scripted.acted.size(), 2u);
  scripted.answer(1, 2);
  scripted.answer(2, 2);
  EXPECT_TRUE(has(scripted.ask(kLine, due + 1, 2), "\"marked\":2"));
}

// With a stopped rank each question lasts a second, so a waiting client has no time for many.
TEST(DrainRequests, SharesAQuestionThatWasAskedAfterACheckArrived) {
  ScriptedRequests scripted;
  const std::string check = "drain check nic1 h1\n";
  const std::string other = "drain check nic0 h1\n";
  EXPECT_FALSE(scripted.ask(check, kStart, 1));
  for (const uint64_t client : {2, 3, 4}) EXPECT_FALSE(scripted.ask(check, kStart + 1, client));
  EXPECT_FALSE(scripted.ask(other, kStart + 1, 5));
  EXPECT_FALSE(scripted.ask(kLine, kStart + 1, 6));
  scripted.answer(1, 0);
  scripted.answer(2, 0);
  scripted.progress(kStart + 2);
  EXPECT_FALSE(scripted.requests.answer(2, check, scripted.rank_table_, kStart + 2))
      << "of before it came";
  EXPECT_TRUE(
      has(scripted.requests.answer(1, check, scripted.rank_table_, kStart + 2), "\"marked\":0"));
  // The second client's question begins. Its answers also serve the third and fourth.
  EXPECT_FALSE(scripted.ask(check, kStart + 3, 2));
  ASSERT_EQ(scripted.asked.size(), 4u);
  EXPECT_FALSE(scripted.ask(check, kStart + 4, 7));
  scripted.answer(1, 1);
  scripted.answer(2, 1);
  scripted.progress(kStart + 5);
  const auto in_turn = [&](uint64_t client, const std::string& line) {
    return scripted.requests.answer(client, line, scripted.rank_table_, kStart + 5);
  };
  EXPECT_TRUE(has(in_turn(3, check), "\"marked\":1")) << "before the second fetches it";
  EXPECT_TRUE(has(in_turn(2, check), "\"marked\":1"));
  EXPECT_TRUE(has(in_turn(4, check), "\"marked\":1")) << "and after";
  EXPECT_FALSE(in_turn(5, other)) << "of another NIC";
  EXPECT_FALSE(in_turn(6, kLine)) << "that is to be done";
  EXPECT_FALSE(in_turn(7, check)) << "it came later";
  EXPECT_EQ(scripted.asked.size(), 4u);
}

TEST(DrainRequests, AnswersACheckWithTheStateAfterACommand) {
  ScriptedRequests scripted;
  EXPECT_FALSE(scripted.ask("drain check nic0 h1\n", kStart, 1));
  EXPECT_FALSE(scripted.ask(kLine, kStart, 2));
  EXPECT_FALSE(scripted.ask("drain check nic1 h1\n", kStart, 3));
  scripted.answer(1, 0);
  scripted.answer(2, 0);
  EXPECT_TRUE(scripted.ask("drain check nic0 h1\n", kStart + 1, 1));
  EXPECT_FALSE(scripted.ask(kLine, kStart + 2, 2));
  scripted.answer(1, 2);
  scripted.answer(2, 2);
  EXPECT_TRUE(has(scripted.ask("drain check nic1 h1\n", kStart + 3, 3), "\"marked\":2"));
  EXPECT_FALSE(scripted.ask("drain undo nic1 h1\n", kStart + 3, 4));
}

TEST(DrainRequests, ListsTheKnownNamesWhenANameIsUnknown) {
  ScriptedRequests scripted;
  EXPECT_TRUE(has(scripted.ask("drain start nic1 h9\n"), "no host of this job is called h9"));
  EXPECT_TRUE(has(scripted.ask("drain start nic1 h9\n"), "h0, h1\",\"unknown\":\"host\""));
  // Lists all NICs of the host, of all its ranks.
  EXPECT_TRUE(has(scripted.ask("drain start eth0 h1\n"), "it has nic0, nic1, nic7"));
  EXPECT_FALSE(scripted.ask("drain start nic7 h1\n"));
  EXPECT_EQ(scripted.asked.size(), 2u) << "only the last was asked";
}

TEST(DrainRequests, DoesNotGuessBetweenHostsOfOneName) {
  ScriptedRequests scripted;
  scripted.rank_table_[2].host[0] = std::byte{3};
  EXPECT_TRUE(has(scripted.ask(kLine), "several hosts of this job are called h1"));
  EXPECT_TRUE(has(scripted.ask("drain start nic1 h1"), "not a request"));
  EXPECT_TRUE(scripted.asked.empty());
  EXPECT_TRUE(scripted.acted.empty());
}

}  // namespace
}  // namespace r2ccl
