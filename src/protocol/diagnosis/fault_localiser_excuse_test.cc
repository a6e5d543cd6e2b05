// Reports that accuse no NIC: the other end excuses them, or their observer takes them back.
#include <gtest/gtest.h>

#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

constexpr TimeNs kRipe = 300 * kMillisecond;  // later than the probe timeout

std::vector<Verdict> localise(const std::vector<Observation>& observations) {
  FaultLocaliser localiser(hosts(4));
  for (const Observation& o : observations) localiser.observe(o, 0);
  return localiser.due(kRipe);
}

// Returns the report without its cause, as an observer sends it to take it back.
Observation taken_back(Observation o) {
  o.cause = DownCause::none;
  o.peer_cause = DownCause::none;
  return o;
}

// One end closes the connection whose bytes were changed; the other may see just that.
TEST(FaultLocaliser, NamesNoNicForBytesThatWereChangedInTransit) {
  for (const DownCause cause : {DownCause::corrupted, DownCause::protocol}) {
    const Observation here = seen(0, 1, cause);
    const Observation there = seen(1, 0, DownCause::connection_lost);
    EXPECT_TRUE(localise({here, there}).empty());
    EXPECT_TRUE(localise({there, here}).empty());
    EXPECT_TRUE(localise({told(1, 0, cause), here}).empty());
    // Another pair, or the same after it was up again, has its own fault.
    EXPECT_EQ(localise({here, seen(2, 3, DownCause::connection_lost)}).size(), 1u);
    Observation again = there;
    again.incarnation = Incarnation(1);
    EXPECT_EQ(localise({here, again}).size(), 1u);
    EXPECT_EQ(localise({again, here}).size(), 1u);
  }
}

// The path had been up for less time than the report of the other end took to arrive.
TEST(FaultLocaliser, NamesNoNicWhenTheOtherEndsReportOfChangedBytesIsLate) {
  FaultLocaliser localiser(hosts(4));
  Observation changed = seen(0, 1, DownCause::protocol);
  Observation closed = seen(1, 0, DownCause::connection_lost);
  changed.since_up_us = closed.since_up_us = 25'000;
  localiser.observe(changed, 0);
  localiser.observe(closed, 200 * kMillisecond);
  EXPECT_TRUE(localiser.due(200 * kMillisecond + kRipe).empty());
}

// A report comes again when its stall is known; the path had been up only for a moment.
TEST(FaultLocaliser, NamesNoNicWhenAReportOfChangedBytesComesAgain) {
  FaultLocaliser localiser(hosts(4));
  Observation changed = seen(0, 1, DownCause::corrupted, 0, 1);
  Observation closed = seen(1, 0, DownCause::connection_lost, 0, 2);
  changed.since_up_us = closed.since_up_us = 5'000;
  for (const TimeNs at : {TimeNs{0}, 60 * kMillisecond}) {
    localiser.observe(closed, at);
    localiser.observe(changed, at);
  }
  EXPECT_TRUE(localiser.due(60 * kMillisecond + kRipe).empty());
}

TEST(FaultLocaliser, StillNamesAPairThatIsLostAfterItsBytesWereChanged) {
  FaultLocaliser localiser(hosts(4));
  Observation changed = seen(0, 1, DownCause::corrupted);
  localiser.observe(changed, 0);
  Observation lost = seen(0, 1, DownCause::silent, 0, 200);
  lost.incarnation = Incarnation(1);
  localiser.observe(lost, kSecond);
  EXPECT_EQ(localiser.due(kSecond + kRipe).size(), 1u);
}

// Another rank localises from now on.
TEST(FaultLocaliser, ForgetsAReportThatIsWithdrawn) {
  FaultLocaliser localiser(hosts(4));
  const Observation o = seen(2, 0, DownCause::connection_lost);
  localiser.observe(o, 0);
  localiser.withdraw(o, kMillisecond);
  EXPECT_EQ(localiser.next_timeout(), kNever);
  EXPECT_TRUE(localiser.due(kRipe).empty());
}

TEST(FaultLocaliser, KeepsTheReportsOfOtherPathsAndOfTheOtherEndWhenOneIsWithdrawn) {
  FaultLocaliser localiser(hosts(4));
  const Observation o = seen(2, 0, DownCause::silent);
  const Observation kept[] = {
      seen(2, 0, DownCause::silent, 1),  // both NICs in the same instant
      seen(0, 2, DownCause::silent, 2),
      seen(2, 0, DownCause::silent, 3, 101),
  };
  localiser.observe(o, 0);
  for (const Observation& each : kept) localiser.observe(each, 0);
  localiser.withdraw(o, 0);
  const auto verdicts = localiser.due(kRipe);
  ASSERT_EQ(verdicts.size(), std::size(kept));
  for (size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(verdicts[i].scope, Scope::pair);
    EXPECT_EQ(verdicts[i].faulty.nic, kept[i].near.nic);
  }
}

TEST(FaultLocaliser, LocalisesAReportThatComesAnewAfterItWasWithdrawn) {
  FaultLocaliser localiser(hosts(4));
  const Observation o = seen(2, 0, DownCause::silent);
  localiser.observe(o, 0);
  localiser.withdraw(o, kMillisecond);
  localiser.observe(o, 2 * kMillisecond);
  EXPECT_EQ(localiser.due(kRipe).size(), 1u);
}

// A loss waits for the verdict on another one of the same NIC, whose report is then taken back.
TEST(FaultLocaliser, AsksForALossThatWaitedForOneThatIsWithdrawn) {
  FaultLocaliser localiser(hosts(8));
  const Observation first = seen(0, 1, DownCause::silent);
  localiser.observe(first, 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  ASSERT_EQ(requests[0].hosts, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  localiser.observe(seen(7, 1, DownCause::silent), 15 * kMillisecond);
  EXPECT_TRUE(localiser.wanted(30 * kMillisecond).empty()) << "it waits";
  localiser.withdraw(first, 35 * kMillisecond);
  EXPECT_EQ(localiser.wanted(35 * kMillisecond).size(), 1u);
}

TEST(FaultLocaliser, DropsAReportThatItsObserverTakesBack) {
  FaultLocaliser localiser(hosts(4));
  const Observation o = seen(2, 0, DownCause::connection_lost);
  localiser.observe(o, 0);
  localiser.observe(taken_back(o), 5 * kMillisecond);
  EXPECT_TRUE(localiser.due(kRipe).empty());
}

// The notice that takes a report back replaces one that was not delivered.
TEST(FaultLocaliser, AccusesNoNicForAReportThatIsTakenBackBeforeItArrives) {
  EXPECT_TRUE(localise({taken_back(seen(2, 0, DownCause::connection_lost))}).empty());
}

}  // namespace
}  // namespace r2ccl
