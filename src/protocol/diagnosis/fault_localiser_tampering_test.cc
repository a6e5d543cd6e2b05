// Paths that end again and again because their bytes were changed: one verdict, on a pair.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

constexpr TimeNs kSome = 5 * kSecond;  // between two changed frames

class ChangedFrames {
 public:
  explicit ChangedFrames(FaultLocaliser& localiser) : localiser_(localiser) {}

  // The observer finds a changed frame; its peer is told. Returns the verdicts of it.
  std::vector<Verdict> change(uint32_t observer, uint32_t peer, int index, TimeNs now) {
    Observation found = seen(observer, peer, DownCause::corrupted, index, now + 1);
    Observation other = told(peer, observer, DownCause::corrupted, index);
    found.since_up_us = other.since_up_us = 1'000'000;
    other.wall = now + 2;
    std::vector<Verdict> verdicts;
    for (const TimeNs later : {TimeNs{0}, 60 * kMillisecond}) {  // again, when the stall is known
      localiser_.observe(found, now + later);
      localiser_.observe(other, now + later);
      for (const Verdict& verdict : localiser_.due(now + later)) verdicts.push_back(verdict);
    }
    for (const Verdict& verdict : localiser_.due(now + kSecond)) verdicts.push_back(verdict);
    return verdicts;
  }

 private:
  FaultLocaliser& localiser_;
};

TEST(FaultLocaliser, NamesThePairWhoseFramesAreChangedThreeTimesInAMinute) {
  FaultLocaliser localiser(hosts(3));
  ChangedFrames frames(localiser);
  EXPECT_TRUE(frames.change(0, 1, 2, 0).empty());
  EXPECT_TRUE(frames.change(1, 0, 2, kSome).empty());
  const auto verdicts = frames.change(0, 1, 2, 2 * kSome);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
  EXPECT_EQ(verdicts[0].kind, DownCause::tampered);
  EXPECT_EQ(verdicts[0].faulty, nic(0, 2));
  EXPECT_EQ(verdicts[0].other, nic(1, 2));
  EXPECT_EQ(verdicts[0].rank, Rank(0));
  EXPECT_EQ(verdicts[0].wall, 1) << "that of the first";
  EXPECT_EQ(verdicts[0].retransmitted_bytes, 30u);
}

TEST(FaultLocaliser, NamesTheHostsWhereFramesOfSeveralPairsOfNicsAreChanged) {
  FaultLocaliser localiser(hosts(3));
  ChangedFrames frames(localiser);
  for (const int index : {0, 1}) EXPECT_TRUE(frames.change(0, 1, index, index * kSome).empty());
  const auto verdicts = frames.change(1, 0, 2, 2 * kSome);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
  EXPECT_EQ(verdicts[0].faulty, (NicName{1, ""}));
  EXPECT_EQ(verdicts[0].other, (NicName{0, ""}));
}

// One a minute, or one on each of several links, is no attack on one of them.
TEST(FaultLocaliser, NamesNobodyForAccidents) {
  FaultLocaliser localiser(hosts(4));
  ChangedFrames frames(localiser);
  TimeNs now = 0;
  for (int i = 0; i < 10; ++i, now += limits::kTamperedTime / 2) {
    EXPECT_TRUE(frames.change(0, 1, 0, now).empty());
  }
  for (uint32_t peer = 1; peer < 4; ++peer) {
    EXPECT_TRUE(frames.change(0, peer, 0, now += limits::kTamperedTime).empty());
  }
  FaultLocaliser other(hosts(4));
  ChangedFrames links(other);
  for (uint32_t peer = 1; peer < 4; ++peer) {
    for (const TimeNs at : {TimeNs{0}, kSome}) EXPECT_TRUE(links.change(0, peer, 0, at).empty());
  }
}

// An attack that goes on is one fault. After a minute without a changed frame it is over.
TEST(FaultLocaliser, NamesAnAttackOnce) {
  FaultLocaliser localiser(hosts(3));
  ChangedFrames frames(localiser);
  size_t verdicts = 0;
  TimeNs now = 0;
  for (int i = 0; i < 50; ++i) verdicts += frames.change(0, 1, 0, now += kSome).size();
  EXPECT_EQ(verdicts, 1u);
  now += limits::kTamperedTime + kSecond;
  for (int i = 0; i < 3; ++i) verdicts += frames.change(0, 1, 0, now += kSome).size();
  EXPECT_EQ(verdicts, 2u);
}

TEST(FaultLocaliser, AddsNothingToAnAttackThatAnotherRankNamed) {
  FaultLocaliser localiser(hosts(3));
  ChangedFrames frames(localiser);
  Verdict verdict;
  verdict.scope = Scope::pair;
  verdict.kind = DownCause::tampered;
  verdict.faulty = {1, ""};
  verdict.other = {0, ""};
  localiser.on_verdict(verdict, 0);
  for (int i = 1; i < 9; ++i) EXPECT_TRUE(frames.change(0, 1, i % 3, i * kSome).empty());
  EXPECT_TRUE(frames.change(0, 2, 0, 9 * kSome).empty());
  EXPECT_TRUE(frames.change(0, 2, 0, 10 * kSome).empty());
  EXPECT_EQ(frames.change(0, 2, 0, 11 * kSome).size(), 1u) << "other hosts";
}

// A sender whose memory is faulty seals wrong bytes.
TEST(FaultLocaliser, CallsNoWrongStatementOfARankTampering) {
  FaultLocaliser localiser(hosts(3));
  for (int i = 0; i < 9; ++i) {
    Observation o = seen(0, 1, DownCause::protocol, 0, i + 1);
    o.since_up_us = 1'000'000;
    localiser.observe(o, i * kSome);
    EXPECT_TRUE(localiser.due(i * kSome + kSecond).empty());
  }
}

}  // namespace
}  // namespace r2ccl
