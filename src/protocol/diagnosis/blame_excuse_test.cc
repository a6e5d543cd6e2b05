// Reports that accuse no NIC: the other end excuses them, or their observer takes them back.
#include <gtest/gtest.h>

#include "protocol/diagnosis/blame_evidence.h"

namespace r2ccl {
namespace {

constexpr TimeNs kRipe = 300 * kMillisecond;  // later than the probe timeout

std::vector<Verdict> judge(const std::vector<Observation>& observations) {
  Judge judge(hosts(4));
  for (const Observation& o : observations) judge.observe(o, 0);
  return judge.due(kRipe);
}

// Returns the report without its cause, as an observer sends it to take it back.
Observation taken_back(Observation o) {
  o.cause = DownCause::none;
  o.peer_cause = DownCause::none;
  return o;
}

// One end closes the connection whose bytes were changed; the other may see just that.
TEST(Judge, NamesNoNicForBytesThatWereChangedInTransit) {
  for (const DownCause cause : {DownCause::corrupted, DownCause::protocol}) {
    const auto here = [&](DownCause what) {
      Observation o = seen(0, 1, what);
      o.up_us = 5'000'000;
      return o;
    };
    Observation there = seen(1, 0, DownCause::connection_lost);
    there.up_us = 5'000'000;
    EXPECT_TRUE(judge({here(cause), there}).empty());
    EXPECT_TRUE(judge({there, here(cause)}).empty());
    EXPECT_TRUE(judge({told(1, 0, cause), here(cause)}).empty());
    // Another pair, or the same after it was up again, has its own fault.
    EXPECT_EQ(judge({here(cause), seen(2, 3, DownCause::connection_lost)}).size(), 1u);
  }
}

// A report comes again when its stall is known; the path had been up only for a moment.
TEST(Judge, NamesNoNicWhenAReportOfChangedBytesComesAgain) {
  Judge judge(hosts(4));
  Observation changed = seen(0, 1, DownCause::corrupted, 0, 1);
  Observation closed = seen(1, 0, DownCause::connection_lost, 0, 2);
  changed.up_us = closed.up_us = 5'000;
  for (const TimeNs at : {TimeNs{0}, 60 * kMillisecond}) {
    judge.observe(closed, at);
    judge.observe(changed, at);
  }
  EXPECT_TRUE(judge.due(60 * kMillisecond + kRipe).empty());
}

TEST(Judge, StillNamesAPairThatIsLostAfterItsBytesWereChanged) {
  Judge judge(hosts(4));
  Observation changed = seen(0, 1, DownCause::corrupted);
  changed.up_us = 5'000'000;
  judge.observe(changed, 0);
  Observation lost = seen(0, 1, DownCause::silent, 0, 200);
  lost.up_us = 100'000;
  judge.observe(lost, kSecond);
  EXPECT_EQ(judge.due(kSecond + kRipe).size(), 1u);
}

// Another rank judges from now on.
TEST(Judge, ForgetsAReportThatIsWithdrawn) {
  Judge judge(hosts(4));
  const Observation o = seen(2, 0, DownCause::connection_lost);
  judge.observe(o, 0);
  judge.withdraw(o, kMillisecond);
  EXPECT_EQ(judge.next_timeout(), kNever);
  EXPECT_TRUE(judge.due(kRipe).empty());
}

TEST(Judge, KeepsTheReportsOfOtherPathsAndOfTheOtherEndWhenOneIsWithdrawn) {
  Judge judge(hosts(4));
  const Observation o = seen(2, 0, DownCause::silent);
  const Observation kept[] = {
      seen(2, 0, DownCause::silent, 1),  // both NICs in the same instant
      seen(0, 2, DownCause::silent, 2),
      seen(2, 0, DownCause::silent, 3, 101),
  };
  judge.observe(o, 0);
  for (const Observation& each : kept) judge.observe(each, 0);
  judge.withdraw(o, 0);
  const auto verdicts = judge.due(kRipe);
  ASSERT_EQ(verdicts.size(), std::size(kept));
  for (size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(verdicts[i].scope, Scope::pair);
    EXPECT_EQ(verdicts[i].culprit.nic, kept[i].near.nic);
  }
}

TEST(Judge, JudgesAReportThatComesAnewAfterItWasWithdrawn) {
  Judge judge(hosts(4));
  const Observation o = seen(2, 0, DownCause::silent);
  judge.observe(o, 0);
  judge.withdraw(o, kMillisecond);
  judge.observe(o, 2 * kMillisecond);
  EXPECT_EQ(judge.due(kRipe).size(), 1u);
}

// A loss waits for the verdict on another one of the same NIC, whose report is then taken back.
TEST(Judge, AsksForALossThatWaitedForOneThatIsWithdrawn) {
  Judge judge(hosts(8));
  const Observation first = seen(0, 1, DownCause::silent);
  judge.observe(first, 0);
  const auto requests = judge.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  ASSERT_EQ(requests[0].hosts, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  judge.observe(seen(7, 1, DownCause::silent), 15 * kMillisecond);
  EXPECT_TRUE(judge.wanted(30 * kMillisecond).empty()) << "it waits";
  judge.withdraw(first, 35 * kMillisecond);
  EXPECT_EQ(judge.wanted(35 * kMillisecond).size(), 1u);
}

TEST(Judge, DropsAReportThatItsObserverTakesBack) {
  Judge judge(hosts(4));
  const Observation o = seen(2, 0, DownCause::connection_lost);
  judge.observe(o, 0);
  judge.observe(taken_back(o), 5 * kMillisecond);
  EXPECT_TRUE(judge.due(kRipe).empty());
}

// The notice that takes a report back replaces one that was not delivered.
TEST(Judge, AccusesNoNicForAReportThatIsTakenBackBeforeItArrives) {
  EXPECT_TRUE(judge({taken_back(seen(2, 0, DownCause::connection_lost))}).empty());
}

}  // namespace
}  // namespace r2ccl
