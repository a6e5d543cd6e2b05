#include "runtime/admin/drain_requests.h"

#include <gtest/gtest.h>

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
    requests.progress(now);
    return requests.answer(client, line, rank_table_, now);
  }
  void answer(int32_t rank, uint32_t marked) {
    DrainAnswer answer{asked.back().number, {.paths = 2, .marked = marked}};
    requests.on_answer(Rank(rank), answer);
  }

  std::vector<RankInfo> rank_table_ = rank_table();
  std::vector<DrainQuestion> asked;
  std::vector<DrainQuestion> acted;
  DrainRequests requests{Rank(0), 3,
                         [this](Rank, const DrainQuestion& question) {
                           asked.push_back(question);
                           return Reachability::no_answer;
                         },
                         [this](const DrainQuestion& question) {
                           acted.push_back(question);
                           return DrainTally{.paths = 4, .marked = 4};
                         }};
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
  scripted.requests.progress(kStart + 1);
  EXPECT_FALSE(scripted.ask(kLine, kStart + 1));
  scripted.answer(2, 1);
  scripted.requests.progress(kStart + 2);
  const auto told = scripted.ask(kLine, kStart + 2);
  EXPECT_TRUE(has(told, "{\"host\":\"h1\",\"nic\":\"nic1\",\"ranks\":[{\"rank\":0,"));
  EXPECT_TRUE(has(told,
                  "\"rank\":2,\"host\":\"h1\",\"presence\":\"answered\",\"tally\":{\"paths\":2,"
                  "\"up\":0,\"marked\":1,"));
  EXPECT_EQ(scripted.asked.size(), 2u);
  // An answer that was fetched is not repeated: the state may have changed.
  EXPECT_FALSE(scripted.ask(kLine, kStart + 3, 2));
  EXPECT_EQ(scripted.asked.size(), 4u);
  EXPECT_GT(scripted.asked[2].number, scripted.asked[0].number);
}

TEST(DrainRequests, NamesTheRanksThatDoNotAnswerInTime) {
  ScriptedRequests scripted;
  EXPECT_FALSE(scripted.ask(kLine));
  scripted.answer(2, 2);
  const TimeNs late = kStart + limits::kStatusQueryTimeMax;
  scripted.requests.progress(late);
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
  scripted.requests.progress(kStart + 1);
  EXPECT_FALSE(scripted.requests.answer(2, undo, scripted.rank_table_, kStart + 1));
  EXPECT_TRUE(
      has(scripted.requests.answer(1, kLine, scripted.rank_table_, kStart + 1), "\"marked\":2"));
  EXPECT_EQ(scripted.acted.size(), 1u);
  EXPECT_EQ(scripted.requests.next_timeout(), 0) << "the other's turn has come";
  EXPECT_FALSE(scripted.ask(undo, kStart + 1, 2));
  EXPECT_EQ(scripted.asked.back().verb, DrainVerb::undo);
  // The answer to an old question.
  scripted.requests.on_answer(Rank(1), {scripted.asked.front().number, {}});
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
  const TimeNs due = scripted.requests.next_timeout();
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
  scripted.requests.progress(kStart + 2);
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
  scripted.requests.progress(kStart + 5);
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
