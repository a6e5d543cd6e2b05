#include "runtime/collective/collective_mismatch_detector.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

#include "runtime/collective/wait_tracker.h"

namespace r2ccl {
namespace {

PlanKey broadcast_from(int32_t root) {
  PlanKey key;
  key.collective = Collective::broadcast;
  key.rank_count = 2;
  key.root = Rank(root);
  key.count = 10;
  return key;
}

PlanKey all_reduce(uint64_t count) {
  PlanKey key;
  key.rank_count = 2;
  key.count = count;
  return key;
}

TEST(CallHistory, IsTheSameForTheSameCalls) {
  CallHistory a;
  CallHistory b;
  PlanKey key = all_reduce(5);
  a.begin(key);
  key.in_place = true;  // may differ between ranks
  b.begin(key);
  EXPECT_EQ(a.latest().chain, b.latest().chain);
  a.begin(broadcast_from(0));
  b.begin(broadcast_from(1));
  EXPECT_NE(a.latest().chain, b.latest().chain);
  a.begin(key);
  b.begin(key);
  EXPECT_NE(a.latest().chain, b.latest().chain) << "a difference stays in the chain";
  EXPECT_EQ(a.find(1)->chain, b.find(1)->chain);
}

TEST(CallHistory, TellsCallsOfNoElementsApart) {
  CallHistory a;
  a.begin(all_reduce(0));
  const uint64_t one = a.latest().chain;
  a.begin(all_reduce(0));
  EXPECT_NE(a.latest().chain, one);
}

TEST(CallHistory, RemembersTheLatestCalls) {
  CallHistory history;
  EXPECT_EQ(history.latest().number, 0U);
  EXPECT_EQ(describe(history.latest()), "no collective yet");
  EXPECT_EQ(history.find(1), nullptr);
  for (uint64_t i = 1; i <= 1000; ++i) history.begin(all_reduce(i));
  EXPECT_EQ(history.latest().number, 1000U);
  EXPECT_EQ(history.find(1000)->key.count, 1000U);
  EXPECT_EQ(history.find(900)->key.count, 900U);
  EXPECT_EQ(history.find(700), nullptr);
  EXPECT_EQ(history.find(1001), nullptr);
  EXPECT_EQ(history.find(UINT64_MAX), nullptr);
}

// Two ranks that send each other reports of their calls.
class Pair : public ::testing::Test {
 protected:
  struct Side {
    CallHistory history;
    std::unique_ptr<CollectiveMismatchDetector> detector;
    std::unique_ptr<WaitTracker> waits;
    uint64_t sends = 0;
    uint64_t receives = 0;
    uint64_t queued = 0;  // collectives called that have not begun
    std::deque<CallReport> sent;
    size_t sent_count = 0;
    std::string failure;
  };

  Pair() {
    for (int32_t rank = 0; rank < 2; ++rank) {
      Side& side = sides_[rank];
      CollectiveMismatchDetector::Callbacks callbacks;
      callbacks.send = [&side](Rank, const CallReport& report) {
        side.sent.push_back(report);
        ++side.sent_count;
      };
      callbacks.fail = [&side](const std::string& why, Rank) { side.failure = why; };
      callbacks.who = [](Rank who) { return "rank " + std::to_string(who.value()); };
      callbacks.sends = [&side](Rank) { return side.sends; };
      callbacks.receives = [&side](Rank) { return side.receives; };
      callbacks.tagged_sends = [](Rank) { return 0; };
      callbacks.called = [&side] { return side.history.latest().number + side.queued; };
      callbacks.unmet_receive = [](Rank, uint64_t) { return ""; };
      callbacks.also_waits = [] { return ""; };
      side.detector =
          std::make_unique<CollectiveMismatchDetector>(Rank(rank), 2, side.history, callbacks);
      WaitTracker::Callbacks waits;
      waits.send = [&side](Rank peer, CallReport::Reason reason) {
        CallReport report = side.detector->report_to(peer, reason);
        side.sent.push_back(report);
        ++side.sent_count;
      };
      waits.collective = [&side](uint64_t number) { return pending_call(side.history, number); };
      waits.waits_on = [rank] { return std::vector<Rank>{Rank(1 - rank)}; };
      waits.doubt = [](Rank) {};
      waits.silence_of = [](Rank) { return Blocker::Kind::silent; };
      waits.warn = [](const PendingCall&, TimeNs, const Blocker&) {};
      side.waits = std::make_unique<WaitTracker>(Rank(rank), 2, waits);
    }
  }

  void deliver() {
    for (bool any = true; any;) {
      any = false;
      for (int32_t rank = 0; rank < 2; ++rank) {
        while (!sides_[rank].sent.empty()) {
          const CallReport sent = std::move(sides_[rank].sent.front());
          sides_[rank].sent.pop_front();
          const CallReport report = decode_calls(sent.reason, encode_calls(sent)).value();
          sides_[1 - rank].detector->on_report(Rank(rank), report);
          sides_[1 - rank].waits->on_report(Rank(rank), report, now_);
          any = true;
        }
      }
    }
  }
  // Both ranks are in a collective all the while.
  void wait(TimeNs duration) {
    for (const TimeNs end = now_ + duration; now_ < end; now_ += 100 * kMillisecond) {
      for (Side& side : sides_) {
        side.waits->set_collective(side.history.latest().number, true, now_);
        side.waits->progress(now_);
      }
      deliver();
    }
  }
  size_t reports() const { return sides_[0].sent_count + sides_[1].sent_count; }
  std::string failure() const { return sides_[0].failure + sides_[1].failure; }

  TimeNs now_ = kSecond;
  std::array<Side, 2> sides_;
};

TEST_F(Pair, AreToldWhenTheyWaitForEachOtherInDifferentCalls) {
  sides_[0].history.begin(broadcast_from(1));
  sides_[1].history.begin(broadcast_from(0));
  wait(WaitTracker::kAskAfter - 50 * kMillisecond);
  EXPECT_EQ(failure(), "");
  wait(500 * kMillisecond);
  EXPECT_NE(
      failure().find("rank 0 is at Broadcast 1 (10 float32 from rank 1), rank 1 at Broadcast 1 "
                     "(10 float32 from rank 0)"),
      std::string::npos)
      << failure();
}

TEST_F(Pair, MayWaitTogetherForLongAndSayLittle) {
  for (Side& side : sides_) side.history.begin(all_reduce(5));
  wait(600 * kSecond);
  EXPECT_EQ(failure(), "");
  EXPECT_LE(reports(), 2U * 2U * 65U) << "a question and an answer every 10 s";
}

TEST_F(Pair, MayBeAtDifferentPlacesOfTheSameCalls) {
  sides_[0].history.begin(all_reduce(5));
  wait(20 * kSecond);
  sides_[1].history.begin(all_reduce(5));
  sides_[1].history.begin(all_reduce(6));
  wait(20 * kSecond);
  EXPECT_EQ(failure(), "");
}

TEST_F(Pair, AreToldThatTheyDifferedLongAgo) {
  for (Side& side : sides_) side.history.begin(broadcast_from(&side == &sides_[0] ? 0 : 1));
  for (Side& side : sides_) side.history.begin(all_reduce(5));
  wait(3 * kSecond);
  EXPECT_NE(failure().find("; they differ in an earlier one"), std::string::npos) << failure();
}

TEST_F(Pair, AreToldOfAMessageThatBelongsToAnotherCall) {
  sides_[0].history.begin(all_reduce(5));
  sides_[1].history.begin(all_reduce(6));
  sides_[0].detector->on_mismatch(Rank(1));
  sides_[0].detector->on_mismatch(Rank(1));
  EXPECT_EQ(reports(), 1U);
  deliver();
  EXPECT_NE(sides_[1].failure.find("(5 float32"), std::string::npos);
  EXPECT_NE(sides_[1].failure.find("(6 float32"), std::string::npos);
}

TEST_F(Pair, EndInPeaceAfterTheSameCalls) {
  for (Side& side : sides_) side.history.begin(all_reduce(5));
  sides_[0].sends = sides_[1].receives = 3;
  sides_[0].detector->end();
  deliver();
  EXPECT_EQ(failure(), "") << "the other has not ended yet";
  sides_[1].detector->end();
  deliver();
  EXPECT_EQ(failure(), "");
}

TEST_F(Pair, AreToldInTheEndOfACallThatOneDidNotMake) {
  sides_[0].history.begin(broadcast_from(0));
  sides_[0].detector->end();
  deliver();
  EXPECT_EQ(failure(), "") << "the other may still make it";
  sides_[1].detector->end();
  deliver();
  for (const Side& side : sides_) {
    EXPECT_NE(side.failure.find("after 1 collective"), std::string::npos) << side.failure;
    EXPECT_NE(side.failure.find("after 0 collectives"), std::string::npos) << side.failure;
  }
}

TEST_F(Pair, AreToldInTheEndThatTheirCallsDiffered) {
  sides_[0].history.begin(broadcast_from(0));
  sides_[1].history.begin(broadcast_from(1));
  sides_[0].detector->end();
  deliver();
  EXPECT_NE(sides_[1].failure.find("from rank 0"), std::string::npos) << sides_[1].failure;
  EXPECT_NE(sides_[1].failure.find("from rank 1"), std::string::npos) << sides_[1].failure;
}

TEST_F(Pair, AreToldInTheEndOfASendThatWasNotReceived) {
  sides_[0].sends = 2;
  sides_[1].receives = 1;
  for (Side& side : sides_) side.detector->end();
  deliver();
  EXPECT_EQ(sides_[1].failure,
            "the ranks' calls do not match: rank 0 ends after 2 Sends to it, rank 1 after 1 Recv "
            "of them");
  EXPECT_NE(sides_[0].failure.find("1 Recv from it"), std::string::npos) << sides_[0].failure;
}

TEST_F(Pair, LearnFromARankThatFinalizesThatACallWillNeverMeetItsCounterpart) {
  sides_[0].receives = 1;
  sides_[0].detector->close();
  deliver();
  EXPECT_EQ(failure(), "") << "the other may still send";
  sides_[1].receives = 1;
  sides_[1].detector->check_closing();
  EXPECT_EQ(sides_[1].failure,
            "the ranks' calls do not match: rank 0 finalizes after 0 Sends to it, rank 1 has "
            "called Recv 1 from it");
  sides_[1].failure.clear();
  sides_[1].detector->check_closing();
  EXPECT_EQ(failure(), "") << "it is told once";
}

TEST_F(Pair, CountCollectivesThatHaveNotBegunWhenOneFinalizes) {
  for (Side& side : sides_) side.history.begin(broadcast_from(0));
  sides_[0].queued = 2;
  sides_[1].queued = 1;
  for (Side& side : sides_) side.detector->close();
  deliver();
  EXPECT_EQ(sides_[1].failure, "") << "it has called fewer";
  EXPECT_EQ(sides_[0].failure,
            "the ranks' calls do not match: rank 1 finalizes after 2 collectives, rank 0 has "
            "called 3 collectives");
}

// Questions and answers have notices of their own.
TEST(CallReport, IsNoQuestionAndNoAnswer) {
  for (uint8_t reason = 0; reason < 8; ++reason) {
    CallReport report;
    report.reason = static_cast<CallReport::Reason>(reason);
    const bool told = reason == 2 || reason == 3 || reason == 5;
    EXPECT_EQ(decode_call_report(encode(report)).ok(), told) << int{reason};
  }
}

TEST(CallReport, SurvivesRandomAndDamagedBytes) {
  std::mt19937_64 random(7);
  const Blocker root{
      .kind = Blocker::Kind::no_send, .rank = Rank(9), .number = 3, .towards = Rank(4)};
  const CallReport sample{
      CallReport::Reason::end, 5, 6, 7, 8, 9, true, Rank(4), root, 11, "Barrier 5"};
  EXPECT_EQ(decode_call_report(encode(sample)).value(), sample);
  EXPECT_EQ(decode_calls(sample.reason, encode_calls(sample)).value(), sample);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = encode(sample);
    bytes.resize(random() % (bytes.size() + 600));
    for (int flips = 0; flips < 3 && !bytes.empty(); ++flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const auto read = decode_call_report(bytes);
    if (!read.ok()) continue;
    EXPECT_EQ(decode_call_report(encode(read.value())).value(), read.value());
  }
}

}  // namespace
}  // namespace r2ccl
