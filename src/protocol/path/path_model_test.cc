#include "protocol/path/path_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "testing/path_driver.h"

namespace r2ccl {
namespace {

TEST(PathModel, FindsTheRateOf250MbitWithin100Ms) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(100 * kMillisecond);
  EXPECT_TRUE(d.model.rate_known());
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 100, 10);
}

TEST(PathModel, AnExpectedRateCountsUntilThePathHasShownItsOwn) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.model.expect(1);
  EXPECT_EQ(d.model.wire_time(1000), 1000);
  EXPECT_GT(d.model.bytes_in(kMillisecond), 900'000u);
  d.run_for(2 * kSecond);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 100, 10);
  d.model.expect(1);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 100, 10);
}

TEST(PathModel, TheWindowAt250MbitIsAbout128KB) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(kSecond);
  // 31.25 MB/s for 4 ms and twice the base delay of 0.1 ms: 131 KB.
  EXPECT_NEAR(static_cast<double>(d.model.window()), 131'000, 13'000);
}

// Acknowledgements come in bunches, as when a process runs for a while and then does not.
TEST(PathModel, KeepsThePathBusyWhenAcknowledgementsComeLate) {
  constexpr TimeNs kPeriod = 15 * kMillisecond;
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(500 * kMillisecond);
  d.run_late_for(kSecond, kPeriod);
  d.delivered.clear();
  d.run_late_for(kSecond, kPeriod);
  double bytes = 0;
  for (const Transmission& transmission : d.delivered) bytes += transmission.bytes;
  // Less than 30 % if the window held only the bytes that come back in time.
  EXPECT_GT(in_percent(bytes, kGigabit250 * kSecond), 65);
  EXPECT_LE(static_cast<double>(d.model.window()), kGigabit250 * 70e6);
  d.run_for(kSecond);
  EXPECT_NEAR(static_cast<double>(d.model.window()), 131'000, 20'000) << "and forgets it";
}

TEST(PathModel, FollowsAFallToATenthWithin100Ms) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(500 * kMillisecond);
  d.wire.rate = kGigabit250 / 10;
  d.run_for(100 * kMillisecond);
  EXPECT_LT(in_percent(d.model.bytes_per_ns(), kGigabit250), 20);
  d.run_for(400 * kMillisecond);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 10, 2);
}

TEST(PathModel, ALateAcknowledgementOfASuspectPathLowersTheRateAtOnce) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(500 * kMillisecond);
  d.wire.rate = kGigabit250 / 10;
  d.drain();  // bytes that were sent at the old rate
  d.fill();
  while (d.late <= 0) d.receive(true);
  EXPECT_LT(in_percent(d.model.bytes_per_ns(), kGigabit250), 30);
}

TEST(PathModel, RisesAgainWhenThePathDoes) {
  Driver d(Wire(kGigabit250 / 10, 100 * kMicrosecond));
  d.run_for(kSecond);
  d.wire.rate = kGigabit250;
  d.run_for(kSecond);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 100, 10);
}

TEST(PathModel, ABurstAtFirstDoesNotBlowUpTheWindow) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond, 66'000));
  d.run_for(kSecond);
  EXPECT_LE(d.window_max, 2 * 131'000u);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 100, 10);
}

TEST(PathModel, TrafficThatDoesNotFillThePathDoesNotLowerItsRate) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(500 * kMillisecond);
  d.drain();
  d.ping_pong(1000, 2 * kMillisecond, 500);
  EXPECT_GT(in_percent(d.model.bytes_per_ns(), kGigabit250), 90);
}

TEST(PathModel, FindsTheBaseDelayOfAnIdlePath) {
  for (const TimeNs round_trip : {100 * kMicrosecond, 2 * kMillisecond, 50 * kMillisecond}) {
    Driver d(Wire(kGigabit250, round_trip));
    d.run_for(500 * kMillisecond);
    d.drain();
    d.now += kSecond;
    d.ping_pong(5000, 300 * kMillisecond, 40);  // longer than two periods of the minimum
    EXPECT_NEAR(static_cast<double>(d.model.base_delay()), static_cast<double>(round_trip),
                0.2 * static_cast<double>(round_trip) + 20e3);
  }
}

TEST(PathModel, TheAcknowledgementDelayCountsForNeitherDelayNorRate) {
  constexpr TimeNs kHeld = limits::kDelayedAckTime;
  Driver holding(Wire(kGigabit250, 100 * kMicrosecond + kHeld));
  holding.held = kHeld;
  holding.ping_pong(5000, 20 * kMillisecond, 10);
  holding.run_for(500 * kMillisecond);
  EXPECT_LT(holding.model.base_delay(), 100 * kMicrosecond + kHeld / 4);
  EXPECT_NEAR(in_percent(holding.model.bytes_per_ns(), kGigabit250), 100, 10);
}

// Returns a best path's estimates: delays of up to 400 us more than the least.
// Delays are noisy, and a path that carries no chunks is not measured. A difference counts only
// when it is large or was seen often.
TEST(PathModel, ASmallDifferenceOfDelaysCountsOnceItWasSeenOften) {
  constexpr TimeNs kShortest = 100 * kMicrosecond;
  Driver d(Wire(kGigabit250, 2 * kMillisecond));
  const auto extra = [&] {
    d.model.compare(best_path(kShortest));
    return d.model.finish_at(0, d.now) - d.now - kShortest;
  };
  d.ping_pong(5000, 20 * kMillisecond, 3);
  EXPECT_EQ(extra(), 0);
  d.ping_pong(5000, 20 * kMillisecond, 1);
  EXPECT_GT(extra(), kMillisecond);
  d.now += kSecond;
  EXPECT_EQ(extra(), 0) << "a path that was measured long ago is tried again";
}

TEST(PathModel, ALargeDifferenceOfDelaysCountsAtOnceAndOneThatTheBestPathHasTooNever) {
  constexpr TimeNs kShortest = 100 * kMicrosecond;
  for (const TimeNs round_trip : {400 * kMicrosecond, 100 * kMillisecond}) {
    Driver d(Wire(kGigabit250, round_trip));
    d.ping_pong(5000, 20 * kMillisecond, round_trip < kMillisecond ? 20 : 1);
    d.model.compare(best_path(kShortest));
    const TimeNs delay = d.model.finish_at(0, d.now) - d.now;
    EXPECT_EQ(delay > kShortest, round_trip > kMillisecond);
  }
}

// The second of two may be all that the receiver ever acknowledges, and is never alone on the path.
TEST(PathModel, PairsShowThatAPathHasBecomeLong) {
  constexpr TimeNs kShortest = 100 * kMicrosecond;
  for (const TimeNs round_trip : {400 * kMicrosecond, 10 * kMillisecond}) {
    Driver d(Wire(kGigabit250, kShortest));
    d.model.compare(best_path(kShortest));
    d.ping_pong(5000, 2 * kMillisecond, 20);
    d.wire = Wire(kGigabit250, round_trip);
    for (int i = 0; i < 20; ++i) {
      d.send(5000);
      d.send(5000);
      d.receive_both();
      d.now += 2 * kMillisecond;
    }
    const TimeNs delay = d.model.finish_at(0, d.now) - d.now;
    EXPECT_EQ(delay > kShortest, round_trip > kMillisecond);
  }
}

// Otherwise other paths, whose rates are known, would look slow beside it, and carry nothing.
TEST(PathModel, ATokenBucketsBurstIsSoonForgotten) {
  constexpr double kSlow = kGigabit250 / 10;
  Driver d(Wire(kSlow, 100 * kMicrosecond, 60'000));
  double most = 0;
  for (int i = 0; i < 10; ++i) {
    d.send(30'000);
    d.send(30'000);
    d.receive_both();
    most = std::max(most, d.model.shown_bytes_per_ns());
    d.now += 2 * kMillisecond;
  }
  EXPECT_GT(most, 10 * kSlow);
  EXPECT_LT(d.model.shown_bytes_per_ns(), 1.01 * kSlow);
}

// If other paths are late too, schedulers are the cause; if none is, the path is.
TEST(PathModel, ErrorsThatNoOtherPathHasDoNotMakeItsLossesWaitLonger) {
  for (const bool others_too : {false, true}) {
    Driver d(Wire(kGigabit250, 100 * kMicrosecond));
    d.ping_pong(5000, 2 * kMillisecond, 20);
    for (int i = 0; i < 10; ++i) {
      d.wire = Wire(kGigabit250, 100 * kMillisecond);
      d.ping_pong(5000, 2 * kMillisecond, 1);
      d.wire = Wire(kGigabit250, 100 * kMicrosecond);
      d.ping_pong(5000, 2 * kMillisecond, 1);
    }
    d.model.compare({.bytes_per_ns = kGigabit250,
                     .delay = 100 * kMicrosecond,
                     .deviation = others_too ? kSecond : kMillisecond / 4});
    EXPECT_EQ(d.model.slack() > 10 * kMillisecond, others_too);
  }
}

// Otherwise a path that carries nothing would make the others' errors count as their own.
TEST(PathModel, AnErrorThatIsHardlyMeasuredSaysNothing) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.ping_pong(5000, 2 * kMillisecond, 5);
  EXPECT_EQ(d.model.deviation(), kNever);
  d.ping_pong(5000, 2 * kMillisecond, 20);
  EXPECT_LT(d.model.deviation(), kMillisecond);
}

struct Speed {
  double bytes_per_ns;
  TimeNs round_trip;
};

class PathModelSpeed : public testing::TestWithParam<Speed> {};

TEST_P(PathModelSpeed, FindsItsRateAndIsNeverLate) {
  Driver d(Wire(GetParam().bytes_per_ns, GetParam().round_trip));
  d.run_for(3 * kSecond);
  // No more than the largest window can be outstanding in a round trip.
  const double possible =
      std::min(GetParam().bytes_per_ns, static_cast<double>(limits::kWindowBytesMax) /
                                            static_cast<double>(GetParam().round_trip));
  EXPECT_GT(in_percent(d.model.bytes_per_ns(), possible), 80);
  EXPECT_LT(in_percent(d.model.bytes_per_ns(), possible), 125);
  // The window keeps the path full, and holds at most some milliseconds and round trips more.
  const double pipe = possible * static_cast<double>(GetParam().round_trip);
  const auto window = static_cast<double>(d.model.window());
  EXPECT_GE(window, std::min(pipe, 0.95 * static_cast<double>(limits::kWindowBytesMax)));
  const double lateness = 4 * static_cast<double>(d.model.deviation());
  EXPECT_LE(window, 4 * pipe + (6e6 + lateness) * possible + 16384);
  // Once the path is known, an acknowledgement in its time is never overdue.
  d.late = INT64_MIN;
  d.run_for(kSecond);
  EXPECT_LE(d.late, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, PathModelSpeed,
    testing::Values(Speed{0.00125, 50 * kMicrosecond}, Speed{0.00125, 50 * kMillisecond},
                    Speed{0.03125, 50 * kMicrosecond}, Speed{0.03125, 50 * kMillisecond},
                    Speed{1.25, 50 * kMicrosecond}, Speed{1.25, 50 * kMillisecond}));

TEST(PathModel, ASilentPathIsOverdueInGoodTime) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  EXPECT_EQ(d.model.overdue_at(), kNever);
  d.run_for(500 * kMillisecond);
  d.drain();
  EXPECT_EQ(d.model.overdue_at(), kNever);
  d.send(50'000);
  // 1.6 ms on the wire, 0.1 ms there and back, and some margin.
  EXPECT_GT(d.model.overdue_at(), d.now + 1700 * kMicrosecond);
  EXPECT_LT(d.model.overdue_at(), d.now + 20 * kMillisecond);
}

TEST(PathModel, TheLossDeadlineGrowsWithTheBytesAhead) {
  PathModel model;
  const TimeNs alone = model.finish_at(30'000, kStart);
  Transmission ahead;
  ahead.bytes = 60'000;
  model.on_sent(ahead, kStart);
  // At 30 MB/s, before anything is known, 60 KB take 2 ms.
  EXPECT_NEAR(static_cast<double>(model.finish_at(30'000, kStart) - alone), 2e6, 1e4);
}

TEST(PathModel, APauseOfTheProcessMovesTheDeadlines) {
  PathModel model;
  Transmission transmission;
  transmission.bytes = 1000;
  model.on_sent(transmission, kStart);
  const TimeNs before = model.overdue_at();
  model.compensate_pause(28 * kMillisecond);
  EXPECT_EQ(model.overdue_at(), before + 28 * kMillisecond);
}

TEST(PathModel, ANewConnectionKeepsTheRateAndForgetsTheOutstandingBytes) {
  Driver d(Wire(1.25, 100 * kMicrosecond));
  d.run_for(kSecond);
  const double rate = d.model.bytes_per_ns();
  ASSERT_GT(d.model.window(), limits::kWindowBytesInitial);
  d.model.reset();
  EXPECT_EQ(d.model.bytes_per_ns(), rate);
  EXPECT_EQ(d.model.frames_sent(), 0u);
  EXPECT_EQ(d.model.bytes_outstanding(), 0u);
  EXPECT_LE(d.model.window(), limits::kWindowBytesInitial);
  EXPECT_EQ(d.model.overdue_at(), kNever);
}

TEST(PathModel, BytesThatThePathMustHaveTakenSinceTheLastAcknowledgementAreNotQueued) {
  constexpr uint32_t kBytes = 31'250;  // a millisecond
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(kSecond);
  d.drain();
  d.now += 100 * kMillisecond;
  d.model.compare(best_path(100 * kMicrosecond));
  for (int i = 0; i < 4; ++i) d.send(kBytes);
  EXPECT_EQ(d.model.bytes_queued(d.now), 4 * kBytes);
  const auto queued = static_cast<double>(d.model.bytes_queued(d.now + 2500 * kMicrosecond));
  EXPECT_NEAR(queued / kBytes, 1.5, 0.2) << "half of one has left";
  EXPECT_EQ(d.model.bytes_queued(d.now + 10 * kMillisecond), 0u);
  EXPECT_EQ(d.model.bytes_outstanding(), 4 * kBytes);
  // The receiver acknowledges none of it: the path is behind.
  d.now += 3 * kMillisecond;
  ASSERT_TRUE(
      d.model.on_delivered(d.model.frames_sent() - 4, d.arrival(), false, d.now, d.delivered));
  EXPECT_EQ(d.model.bytes_queued(d.now), 4 * kBytes);
}

TEST(PathModel, AChunkWaitsUntilThePathHasTakenTheOneBeforeAndNotForItsAcknowledgement) {
  Driver d(Wire(kGigabit250, 20 * kMillisecond));
  d.run_for(kSecond);
  d.drain();
  const TimeNs alone = d.model.finish_at(0, d.now) - d.now;
  d.send(31'250);  // a millisecond
  EXPECT_NEAR(to_ms(d.model.finish_at(0, d.now) - d.now - alone), 1, 0.1);
  d.now += 1200 * kMicrosecond;
  EXPECT_EQ(d.model.finish_at(0, d.now) - d.now, alone);
}

TEST(PathModel, TransmissionsSentAtOnceShowTheirRateThoughEachHasItsOwnAcknowledgement) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  for (int i = 0; i < 20; ++i) d.send(5000);
  for (int i = 0; i < 20; ++i) d.receive();
  EXPECT_FALSE(d.model.rate_known());
  EXPECT_GT(in_percent(d.model.shown_bytes_per_ns(), kGigabit250), 90);
}

TEST(PathModel, TakesTheBestRateAsItsPriorUntilItHasShownOne) {
  PathModel model;
  model.compare({.bytes_per_ns = 0.5});
  EXPECT_EQ(model.bytes_per_ns(), 0.5);
  EXPECT_FALSE(model.rate_known());
}

}  // namespace
}  // namespace r2ccl
