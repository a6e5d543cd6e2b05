#include "protocol/path/return_policy.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

// A machine that has been up for a year: nothing may depend on a clock that starts at zero.
constexpr TimeNs kStart = 365LL * 24 * 3600 * kSecond;

// Records a failure of a path that was up.
void flap(ReturnPolicy& policy, TimeNs now) {
  policy.on_down(now, true);
}

TEST(ReturnPolicy, TriesAPathThatWasNeverUpAtOnceAndOftenThen) {
  ReturnPolicy policy;
  EXPECT_LE(policy.next_attempt(), kStart);
  policy.on_attempt(kStart);
  EXPECT_EQ(policy.next_attempt(), kStart + 25 * kMillisecond);
}

TEST(ReturnPolicy, TriesSoonAfterAFailure) {
  ReturnPolicy policy;
  policy.on_down(kStart, true);
  EXPECT_GT(policy.next_attempt(), kStart);
  EXPECT_LE(policy.next_attempt(), kStart + 50 * kMillisecond);
}

TEST(ReturnPolicy, SpacesAttemptsByTheOutageThenFrom250MsAfterAMinuteTo5SAfterAnHour) {
  ReturnPolicy policy;
  policy.on_down(kStart, true);
  const auto spacing = [&](TimeNs age) {
    policy.on_attempt(kStart + age);
    return policy.next_attempt() - (kStart + age);
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

TEST(ReturnPolicy, AnEventMakesTheNextAttemptDueAtOnce) {
  ReturnPolicy policy;
  policy.on_down(kStart, true);
  policy.on_attempt(kStart + 3600 * kSecond);
  policy.on_hint(kStart + 3601 * kSecond);
  EXPECT_EQ(policy.next_attempt(), kStart + 3601 * kSecond);
  policy.on_hint(kStart + 3602 * kSecond);  // never later than before
  EXPECT_EQ(policy.next_attempt(), kStart + 3601 * kSecond);
}

TEST(ReturnPolicy, APathThatConnectsButNeverProvesItselfKeepsTheSpacing) {
  ReturnPolicy policy;
  policy.on_attempt(kStart);
  policy.on_attempt(kStart + kSecond);
  policy.on_down(kStart + 1005 * kMillisecond, false);
  EXPECT_EQ(policy.next_attempt(), kStart + 1250 * kMillisecond);
  EXPECT_EQ(policy.penalty_at(kStart + kSecond), 0);
}

TEST(ReturnPolicy, ThePenaltyHalvesEvery30S) {
  ReturnPolicy policy;
  flap(policy, kStart);
  EXPECT_DOUBLE_EQ(policy.penalty_at(kStart), 1);
  EXPECT_DOUBLE_EQ(policy.penalty_at(kStart + 30 * kSecond), 0.5);
  EXPECT_DOUBLE_EQ(policy.penalty_at(kStart + 60 * kSecond), 0.25);
  flap(policy, kStart + 30 * kSecond);
  EXPECT_DOUBLE_EQ(policy.penalty_at(kStart + 30 * kSecond), 1.5);
}

TEST(ReturnPolicy, HoldsAPathBackFromItsThirdFailureInAMinute) {
  ReturnPolicy policy;
  flap(policy, kStart);
  EXPECT_LE(policy.next_attempt(), kStart + 50 * kMillisecond);
  flap(policy, kStart + kSecond);
  EXPECT_LE(policy.next_attempt(), kStart + kSecond + 50 * kMillisecond);
  flap(policy, kStart + 2 * kSecond);
  EXPECT_GE(policy.next_attempt(), kStart + 3 * kSecond);
  // An event does not shorten a penalty.
  const TimeNs held = policy.next_attempt();
  policy.on_hint(kStart + 2100 * kMillisecond);
  EXPECT_EQ(policy.next_attempt(), held);
}

TEST(ReturnPolicy, ForgivesFailuresThatAreFarApart) {
  ReturnPolicy policy;
  for (int i = 0; i < 50; ++i) {
    const TimeNs now = kStart + i * 60 * kSecond;
    flap(policy, now);
    EXPECT_LE(policy.next_attempt(), now + 50 * kMillisecond);
  }
}

TEST(ReturnPolicy, HoldsNoPathLongerThan30S) {
  ReturnPolicy policy;
  for (int i = 0; i < 500; ++i) {
    flap(policy, kStart + i);
    ASSERT_LE(policy.next_attempt(), kStart + i + 30 * kSecond);
    ASSERT_GT(policy.next_attempt(), kStart + i);
  }
  EXPECT_GT(policy.next_attempt(), kStart + 29 * kSecond);
}

TEST(ReturnPolicy, AFailureThatTakesItsReturnHoldsLongerEachTime) {
  ReturnPolicy policy;
  TimeNs now = kStart;
  TimeNs before = 0;
  for (int i = 0; i < 6; ++i) {
    flap(policy, now);
    const TimeNs wait = policy.next_attempt() - now;
    EXPECT_GE(wait, before) << i;
    before = wait;
    now = policy.next_attempt() + 100 * kMillisecond;  // comes back, and fails again
  }
  EXPECT_GT(before, 4 * kSecond);
}

TEST(ReturnPolicy, WithoutDampingFlappingCostsNothing) {
  ReturnPolicy policy(false);
  for (int i = 0; i < 10; ++i) {
    flap(policy, kStart + i * kSecond);
    EXPECT_LE(policy.next_attempt(), kStart + i * kSecond + 50 * kMillisecond);
  }
}

}  // namespace
}  // namespace r2ccl
