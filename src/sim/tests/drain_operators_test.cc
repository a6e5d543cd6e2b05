// Operators who drain NICs of one job at the same time, at several ranks' sockets, take the drains
// back or go away. In all cases every link keeps a path, no element is wrong, no chunk is sent
// twice, and a refused operator is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "base/limits.h"
#include "runtime/link/notice.h"
#include "sim/cluster/drain_job.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

// Longer than notices take beside data.
constexpr TimeNs kSettled = 200 * kMillisecond;

class DrainOperators : public DrainJob {
 protected:
  // One request at a rank's socket, as its status server passes it on.
  struct Request {
    int rank = 0;
    uint64_t number = 0;
    std::string line;
    TimeNs said_at = 0;
    TimeNs answered_at = 0;  // 0: no answer yet
    std::string answer;
    bool gone = false;  // the client has left
    bool done() const { return gone || answered_at != 0; }
  };

  void open_sockets() {
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      cluster_->node(rank).in_turn = [this, rank] { serve(rank); };
    }
  }
  Request& say(int rank, const std::string& verb, int owner, int nic) {
    Request& made = requests_.emplace_back();
    made.rank = rank;
    made.number = requests_.size();
    made.line =
        "drain " + verb + " nic" + std::to_string(nic) + " h" + std::to_string(owner) + "\n";
    made.said_at = cluster_->now();
    cluster_->wake_all();
    return made;
  }
  void serve(int rank) {
    for (Request& each : requests_) {
      if (each.rank != rank || each.done()) continue;
      const auto answer = cluster_->node(rank).drains().answer(each.number, each.line);
      if (!answer) continue;
      each.answer = *answer;
      each.answered_at = cluster_->now();
    }
  }
  bool all_done() const {
    return std::ranges::all_of(requests_, [](const Request& each) { return each.done(); });
  }
  void expect_answers(TimeNs within) {
    EXPECT_TRUE(cluster_->world().run_until([&] { return all_done(); }, cluster_->now() + within));
  }
  NicSet drained(int rank) { return cluster_->node(rank).engine().nics().drained(); }
  // Expects that all ranks know the drained NICs of each rank.
  void expect_agreement() {
    for_each_link(
        [&](Link& link) { EXPECT_EQ(link.drained_remote(), drained(link.peer().value())); });
  }
  void expect_no_harm() {
    finish();
    expect_no_events();
    EXPECT_EQ(retransmitted(), 0u);
  }

  std::deque<Request> requests_;  // references stay valid
};

TEST_F(DrainOperators, LeavingOneNicEachAreNotBothServed) {
  for (int second_rank = 0; second_rank < 3; ++second_rank) {
    for (const TimeNs later : {0, 10, 50, 200, 1000}) {
      start(3, 2);
      open_sockets();
      begin(8);
      run_for(23 * kMillisecond);
      const Request& first = say(0, "start", 1, 0);
      run_for(later * kMicrosecond);
      const Request& second = say(second_rank, "start", 1, 1);
      expect_answers(kSecond);
      const bool served[] = {drained(1).contains(NicId(0)), drained(1).contains(NicId(1))};
      EXPECT_NE(served[0], served[1]) << second_rank << ' ' << later;
      // The refused operator's answer shows a NIC in service, and links that need it.
      const Request& refused = served[0] ? second : first;
      EXPECT_NE(
          refused.answer.find("\"rank\":1,\"host\":\"h1\",\"presence\":\"answered\",\"tally\":{"
                              "\"paths\":2,\"up\":2,\"marked\":0,\"in_use\":0"),
          std::string::npos)
          << refused.answer;
      EXPECT_NE(refused.answer.find("\"stranded\":2"), std::string::npos) << refused.answer;
      run_for(kSettled);
      EXPECT_TRUE(out_of_service(1, served[0] ? 0 : 1));
      EXPECT_FALSE(out_of_service(1, served[0] ? 1 : 0));
      expect_agreement();
      expect_no_harm();
      requests_.clear();
    }
  }
}

// Neither host knows of the other's drain yet, so both accept. But the link keeps its paths, and
// neither operator is told that the cable may be pulled.
TEST_F(DrainOperators, OfTheTwoEndsOfALinkAreNotBothTold) {
  for (const TimeNs later : {0, 10, 50, 200, 1000}) {
    start(2, 2);
    open_sockets();
    begin(30);
    run_for(23 * kMillisecond);
    say(0, "start", 0, 0);
    run_for(later * kMicrosecond);
    say(1, "start", 1, 1);
    expect_answers(kSecond);
    run_for(kSettled);
    expect_agreement();
    const bool both = drained(0).bits() != 0 && drained(1).bits() != 0;
    const bool known = later == 1000;
    if (later == 0 || known) {
      EXPECT_NE(both, known) << later;
    }
    EXPECT_EQ(out_of_service(0, 0), !both);
    EXPECT_FALSE(out_of_service(1, 1));
    EXPECT_EQ(tally(0, 0, 0).in_use, both ? 1u : 0u);
    EXPECT_EQ(tally(1, 1, 1).in_use, both ? 1u : 0u);
    // One operator takes the drain back, and the other's is complete.
    say(0, "undo", 1, 1);
    expect_answers(kSecond);
    run_for(kSettled);
    EXPECT_TRUE(out_of_service(0, 0));
    expect_no_harm();
    requests_.clear();
  }
}

TEST_F(DrainOperators, OfOneNicBothHaveItAndOneOfThemGivesItBack) {
  start(3, 3);
  open_sockets();
  begin(30);
  run_for(23 * kMillisecond);
  say(0, "start", 1, 2);
  say(2, "start", 1, 2);
  say(2, "start", 1, 2);
  expect_answers(kSecond);
  run_for(kSettled);
  EXPECT_TRUE(out_of_service(1, 2));
  const uint64_t carried = bytes_through(1, 2);
  say(1, "undo", 1, 2);
  expect_answers(kSecond);
  run_for(kSettled);
  EXPECT_EQ(drained(1), NicSet());
  EXPECT_GT(bytes_through(1, 2), carried + 500'000);
  expect_agreement();
  expect_no_harm();
}

TEST_F(DrainOperators, TheUndoOfOneAtThatMomentLeavesAllRanksAgreeing) {
  for (const TimeNs later : {0, 10, 50, 200, 1000}) {
    start(3, 3);
    open_sockets();
    begin(12);
    run_for(23 * kMillisecond);
    say(0, "start", 1, 2);
    run_for(later * kMicrosecond);
    const Request& undo = say(2, "undo", 1, 2);
    expect_answers(kSecond);
    run_for(kSettled);
    expect_agreement();
    EXPECT_EQ(out_of_service(1, 2), drained(1).contains(NicId(2))) << later;
    if (later == 1000) {
      EXPECT_EQ(drained(1), NicSet()) << undo.answer;
    }
    expect_no_harm();
    requests_.clear();
  }
}

// Two operators drain the same NIC, and another rank refuses one of them. That one takes its own
// request back, but the other may still rely on the drain, in either order.
TEST_F(DrainOperators, TheTakeBackOfOneKeepsTheOthersDrain) {
  for (const bool relied_on_first : {true, false}) {
    for (const TimeNs later : {0, 10, 50, 200, 1000}) {
      start(3, 3);
      open_sockets();
      begin(12);
      run_for(23 * kMillisecond);
      say(0, relied_on_first ? "start:a" : "start:b", 1, 2);
      run_for(later * kMicrosecond);
      say(2, relied_on_first ? "start:b" : "start:a", 1, 2);
      expect_answers(kSecond);
      say(2, "back:b", 1, 2);
      expect_answers(kSecond);
      run_for(kSettled);
      EXPECT_TRUE(out_of_service(1, 2)) << relied_on_first << ' ' << later;
      // An operator's undo is unconditional.
      say(2, "undo", 1, 2);
      expect_answers(kSecond);
      run_for(kSettled);
      EXPECT_EQ(drained(1), NicSet());
      expect_agreement();
      expect_no_harm();
      requests_.clear();
    }
  }
}

TEST_F(DrainOperators, TheOnlyOneTakesItBackAtAnyRankAndOnlyOnce) {
  start(3, 3);
  open_sockets();
  begin(30);
  run_for(23 * kMillisecond);
  const auto said = [this](const char* verb) {
    say(static_cast<int>(requests_.size() % 3), verb, 1, 2);
    expect_answers(kSecond);
    return drained(1).contains(NicId(2));
  };
  EXPECT_TRUE(said("start:b"));
  EXPECT_TRUE(said("start:b")) << "an operator who asks twice is still the only one";
  EXPECT_TRUE(said("back:c"));
  EXPECT_FALSE(said("back:b"));
  // Requests before an undo no longer count.
  EXPECT_TRUE(said("start:b"));
  EXPECT_FALSE(said("undo"));
  EXPECT_TRUE(said("start:a"));
  EXPECT_TRUE(said("back:b"));
  // A drain without a ticket cannot be taken back by ticket either.
  EXPECT_TRUE(said("start"));
  EXPECT_TRUE(said("back:a"));
  EXPECT_FALSE(said("undo"));
  run_for(kSettled);
  expect_agreement();
  expect_no_harm();
}

// At one socket each request is acted on once, in the order of arrival.
TEST_F(DrainOperators, AtOneSocketTheLastOneHasItsWay) {
  start(3, 3);
  open_sockets();
  begin(30);
  run_for(23 * kMillisecond);
  for (int i = 0; i < 4; ++i) {
    say(0, "start", 1, 2);
    say(0, "undo", 1, 2);
  }
  expect_answers(kSecond);
  for (size_t i = 1; i < requests_.size(); ++i) {
    EXPECT_LE(requests_[i - 1].answered_at, requests_[i].answered_at);
  }
  run_for(kSettled);
  EXPECT_EQ(drained(1), NicSet());
  expect_agreement();
  expect_no_harm();
}

TEST_F(DrainOperators, GoingAwayLeaveTheirDrainsAndDoNotHoldUpTheNext) {
  start(3, 3);
  open_sockets();
  begin(30);
  run_for(23 * kMillisecond);
  Request& left = say(0, "start", 1, 2);
  run_for(50 * kMicrosecond);
  ASSERT_FALSE(left.done());
  left.gone = true;
  const Request& next = say(0, "check", 1, 2);
  expect_answers(kSecond);
  EXPECT_LT(next.answered_at - next.said_at, 2 * limits::kStatusFreshness);
  run_for(kSettled);
  EXPECT_TRUE(out_of_service(1, 2));
  say(0, "undo", 1, 2);
  expect_answers(kSecond);
  run_for(kSettled);
  EXPECT_EQ(drained(1), NicSet());
  expect_no_harm();
}

// Random operators drain and restore random NICs at random ranks. Plans stay as they are: the first
// bytes of another plan may make a path suspect for a moment.
TEST_F(DrainOperators, InACrowdCostTheJobNothing) {
  views_ = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    start(4, 3, 64 * 1024);
    open_sockets();
    begin(60);
    for (int i = 0; i < 60; ++i) {
      const char* const verbs[] = {"start", "start", "undo", "check"};
      Request& made = say(static_cast<int>(random.below(4)), verbs[random.below(4)],
                          static_cast<int>(random.below(4)), static_cast<int>(random.below(3)));
      run_for(static_cast<TimeNs>(random.below(8 * kMillisecond)));
      made.gone = made.gone || (!made.done() && random.below(2) == 0);
    }
    expect_answers(5 * kSecond);
    run_for(kSettled);
    expect_agreement();
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_NE(drained(rank), NicSet(7)) << "the last one was refused";
      for (int nic = 0; nic < 3; ++nic) say(0, "undo", rank, nic);
    }
    expect_answers(5 * kSecond);
    expect_no_harm();
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(drained(rank), NicSet());
    expect_agreement();
    requests_.clear();
  }
}

TEST_F(DrainOperators, AskForNonsenseInVain) {
  start(2, 2);
  open_sockets();
  begin(20);
  for (const std::string line :
       {"drain start nic9 h1\n", "drain start nic1 h9\n", "drain start nic1 \n", "drain stop a b\n",
        "drain \n", "drain start nic1 h1", "drain start nic1 h1\nh1\n"}) {
    Request& made = say(0, "start", 1, 1);
    made.line = line;
  }
  expect_answers(kSecond);
  for (const Request& each : requests_) {
    EXPECT_NE(each.answer.find("\"problem\""), std::string::npos) << each.line << each.answer;
  }
  // Bad notices between ranks: an unknown rank, an unknown verb, a truncated question.
  DrainQuestion question{DrainVerb::drain, Rank(7), "nic1"};
  Link* link = cluster_->node(0).engine().link(Rank(1));
  std::vector<std::byte> bytes = encode(question);
  const auto say = [&](NoticeKind kind, uint64_t slot) {
    const auto body = encode(QueryMessage{QueryTopic::drain, 1, bytes});
    link->send_notice(make_notice(kind, query_subject(QueryTopic::drain, slot), body));
  };
  say(NoticeKind::question, 0);
  question.host = Rank(1);
  bytes = encode(question);
  bytes[0] = std::byte{9};
  say(NoticeKind::question, 1);
  bytes.resize(7);
  say(NoticeKind::question, 2);
  say(NoticeKind::answer, 3);
  run_for(kSettled);
  EXPECT_EQ(cluster_->node(1).runtime->job().query().refused(), 4u);
  EXPECT_EQ(drained(1), NicSet());
  expect_no_harm();
}

}  // namespace
}  // namespace r2ccl::sim
