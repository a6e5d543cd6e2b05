#include "protocol/path/reconnect_backoff.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

// A machine that has been up for a year: nothing may depend on a clock that starts at zero.
constexpr TimeNs kStart = 365LL * 24 * 3600 * kSecond;

// Records a failure of a path that was up.
void flap(ReconnectBackoff& backoff, TimeNs now) {
  backoff.on_down(now, true);
}

TEST(ReconnectBackoff, TriesAPathThatWasNeverUpAtOnceAndOftenThen) {
  ReconnectBackoff backoff;
  EXPECT_LE(backoff.next_attempt(), kStart);
  backoff.on_attempt(kStart);
  EXPECT_EQ(backoff.next_attempt(), kStart + 25 * kMillisecond);
}

TEST(ReconnectBackoff, TriesSoonAfterAFailure) {
  ReconnectBackoff backoff;
  backoff.on_down(kStart, true);
  EXPECT_GT(backoff.next_attempt(), kStart);
  EXPECT_LE(backoff.next_attempt(), kStart + 50 * kMillisecond);
}

TEST(ReconnectBackoff, SpacesAttemptsByTheOutageThenFrom250MsAfterAMinuteTo5SAfterAnHour) {
  ReconnectBackoff backoff;
  backoff.on_down(kStart, true);
  const auto spacing = [&](TimeNs age) {
    backoff.on_attempt(kStart + age);
    return backoff.next_attempt() - (kStart + age);
  };
  EXPECT_EQ(spacing(0), 25 * kMillisecond);
  EXPECT_EQ(spacing(400 * kMillisecond), 100 * kMillisecond);
  EXPECT_EQ(spacing(1 * kSecond), 250 * kMillisecond);
  EXPECT_EQ(spacing(60 * kSecond), 250 * kMillisecond);
  // 250 ms at a minute, 5 s at an hour, a straight line between: half way 2.625 s.
  EXPECT_NEAR(static_cast<double>(spacing(1830 * kSecond)), 2.625e9, 1e6);
  EXPECT_EQ(spacing(3600 * kSecond), 5 * kSecond);
  EXPECT_EQ(spacing(24 * 3600 * kSecond), 5 * kSecond);
  EXPECT_EQ(spacing(10LL * 365 * 24 * 3600 * kSecond), 5 * kSecond);  // and for ever
  TimeNs before = 0;
  for (TimeNs age = 0; age < 2 * 3600 * kSecond; age += 7 * kSecond) {
    const TimeNs now = spacing(age);
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(ReconnectBackoff, AnEventMakesTheNextAttemptDueAtOnce) {
  ReconnectBackoff backoff;
  backoff.on_down(kStart, true);
  backoff.on_attempt(kStart + 3600 * kSecond);
  backoff.on_hint(kStart + 3601 * kSecond);
  EXPECT_EQ(backoff.next_attempt(), kStart + 3601 * kSecond);
  backoff.on_hint(kStart + 3602 * kSecond);  // never later than before
  EXPECT_EQ(backoff.next_attempt(), kStart + 3601 * kSecond);
  backoff.on_attempt(kStart + 3602 * kSecond);  // and often again after it
  EXPECT_EQ(backoff.next_attempt(), kStart + 3602 * kSecond + 25 * kMillisecond);
}

TEST(ReconnectBackoff, APathThatConnectsButIsNeverValidatedKeepsTheSpacing) {
  ReconnectBackoff backoff;
  backoff.on_attempt(kStart);
  backoff.on_attempt(kStart + kSecond);
  backoff.on_down(kStart + 1005 * kMillisecond, false);
  EXPECT_EQ(backoff.next_attempt(), kStart + 1250 * kMillisecond);
  EXPECT_EQ(backoff.penalty_at(kStart + kSecond), 0);
}

TEST(ReconnectBackoff, ThePenaltyHalvesEvery30S) {
  ReconnectBackoff backoff;
  flap(backoff, kStart);
  EXPECT_DOUBLE_EQ(backoff.penalty_at(kStart), 1);
  EXPECT_DOUBLE_EQ(backoff.penalty_at(kStart + 30 * kSecond), 0.5);
  EXPECT_DOUBLE_EQ(backoff.penalty_at(kStart + 60 * kSecond), 0.25);
  flap(backoff, kStart + 30 * kSecond);
  EXPECT_DOUBLE_EQ(backoff.penalty_at(kStart + 30 * kSecond), 1.5);
}

TEST(ReconnectBackoff, HoldsAPathBackFromItsThirdFailureInAMinute) {
  ReconnectBackoff backoff;
  flap(backoff, kStart);
  EXPECT_LE(backoff.next_attempt(), kStart + 50 * kMillisecond);
  flap(backoff, kStart + kSecond);
  EXPECT_LE(backoff.next_attempt(), kStart + kSecond + 50 * kMillisecond);
  flap(backoff, kStart + 2 * kSecond);
  EXPECT_GE(backoff.next_attempt(), kStart + 3 * kSecond);
  // An event does not shorten a penalty.
  const TimeNs held = backoff.next_attempt();
  backoff.on_hint(kStart + 2100 * kMillisecond);
  EXPECT_EQ(backoff.next_attempt(), held);
}

TEST(ReconnectBackoff, ForgivesFailuresThatAreFarApart) {
  ReconnectBackoff backoff;
  for (int i = 0; i < 50; ++i) {
    const TimeNs now = kStart + i * 60 * kSecond;
    flap(backoff, now);
    EXPECT_LE(backoff.next_attempt(), now + 50 * kMillisecond);
  }
}

TEST(ReconnectBackoff, HoldsNoPathLongerThan30S) {
  ReconnectBackoff backoff;
  for (int i = 0; i < 500; ++i) {
    flap(backoff, kStart + i);
    ASSERT_LE(backoff.next_attempt(), kStart + i + 30 * kSecond);
    ASSERT_GT(backoff.next_attempt(), kStart + i);
  }
  EXPECT_GT(backoff.next_attempt(), kStart + 29 * kSecond);
}

TEST(ReconnectBackoff, AFailureThatTakesItsReturnHoldsLongerEachTime) {
  ReconnectBackoff backoff;
  TimeNs now = kStart;
  TimeNs before = 0;
  for (int i = 0; i < 6; ++i) {
    flap(backoff, now);
    const TimeNs wait = backoff.next_attempt() - now;
    EXPECT_GE(wait, before) << i;
    before = wait;
    now = backoff.next_attempt() + 100 * kMillisecond;  // comes back, and fails again
  }
  EXPECT_GT(before, 4 * kSecond);
}

TEST(ReconnectBackoff, WithoutDampingFlappingCostsNothing) {
  ReconnectBackoff backoff(false);
  for (int i = 0; i < 10; ++i) {
    flap(backoff, kStart + i * kSecond);
    EXPECT_LE(backoff.next_attempt(), kStart + i * kSecond + 50 * kMillisecond);
  }
}

}  // namespace
}  // namespace r2ccl
