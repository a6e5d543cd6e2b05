#include "protocol/path/loss_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace r2ccl {
namespace {

constexpr TimeNs kPeriod = LossMeter::kPeriod;

struct Step {
  int period;
  LossMeter::Counters counters;
};

LossCount count_of(const std::vector<Step>& steps, int at) {
  LossMeter meter;
  for (const Step& step : steps)
    meter.sample(LossMeter::kData, step.counters, step.period * kPeriod);
  return meter.count(at * kPeriod);
}

TEST(LossMeter, CountsFromBehindTheFirstPeriodWithALoss) {
  EXPECT_EQ(count_of({{1, {1000, 0, 900}}, {2, {2000, 1, 1900}}, {3, {2100, 6, 2000}}}, 3),
            (LossCount{.sent = 100, .lost = 5, .periods = 1, .lossy = 2}));
  EXPECT_EQ(count_of({{1, {1000, 0, 900}}, {2, {2000, 10, 1900}}}, 2),
            (LossCount{.sent = 1000, .lost = 10, .periods = 1, .lossy = 1}));
  EXPECT_EQ(count_of({{1, {1000, 0, 900}}, {2, {2000, 0, 1900}}}, 2),
            (LossCount{.sent = 2000, .lost = 0, .periods = 2, .lossy = 0}));
}

// A connection that delivers nothing is silent and not lossy; its last retransmissions never count.
TEST(LossMeter, CountsALossOnlyOnceSomethingIsDelivered) {
  EXPECT_EQ(count_of({{1, {100, 0, 90}}, {2, {101, 1, 90}}, {4, {102, 2, 90}}}, 4).lost, 0U);
  EXPECT_EQ(count_of({{1, {100, 0, 90}}, {2, {101, 1, 90}}, {4, {112, 2, 91}}}, 4).lost, 2U);
  LossMeter meter;
  meter.sample(LossMeter::kData, {100, 0, 90}, kPeriod);
  meter.sample(LossMeter::kData, {110, 5, 90}, 2 * kPeriod);
  meter.reset();
  meter.sample(LossMeter::kData, {20, 0, 10}, 3 * kPeriod);
  EXPECT_EQ(meter.count(3 * kPeriod).lost, 0U);
}

// A round trip later the peer reports that it had the packet already.
TEST(LossMeter, TakesBackSpuriousRetransmissions) {
  EXPECT_EQ(count_of({{1, {100, 1, 90}}, {2, {200, 0, 190}}}, 2),
            (LossCount{.sent = 200, .lost = 0, .periods = 2, .lossy = 0}));
  LossMeter meter;
  meter.sample(LossMeter::kData, {100, 1, 90}, kPeriod);
  meter.sample(LossMeter::kData, {200, 0, 190}, 2 * kPeriod);
  EXPECT_EQ(meter.lost(), 0U);
  EXPECT_EQ(meter.sent(), 200U);
}

// Small packets pass an MTU black hole, and the kernel retransmits large ones for ever: a stall, no
// loss.
TEST(LossMeter, DoesNotCountAStallAsALossBecauseTheOtherConnectionDelivers) {
  LossMeter meter;
  meter.sample(LossMeter::kData, {100, 0, 90}, 0);
  for (int period = 1; period < 8; ++period) {
    const auto count = static_cast<uint64_t>(period);
    meter.sample(LossMeter::kControl, {10 * count, 0, 10 * count}, period * kPeriod);
    meter.sample(LossMeter::kData, {100 + count, count, 90}, period * kPeriod);
  }
  EXPECT_EQ(meter.count(7 * kPeriod).lost, 0U);
}

// Returns the count after 8 periods, in each of which `lost` of 20 packets get lost. The round trip
// is `between` before that, and `at_loss` when the loss becomes known.
LossCount count_with_queues(TimeNs at_loss, TimeNs between, TimeNs least, uint64_t lost = 1) {
  LossMeter meter;
  LossMeter::Counters counters{.sent = 100, .delivered = 90, .least_round_trip = least};
  for (int period = 1; period <= 8; ++period) {
    counters.sent += 100;
    counters.delivered += 100;
    counters.round_trip = between;
    meter.sample(LossMeter::kData, counters, period * kPeriod);
    counters.sent += 20;
    counters.lost += lost;
    counters.delivered += 20 - lost;
    counters.round_trip = at_loss;
    meter.sample(LossMeter::kData, counters, period * kPeriod + kPeriod / 2);
  }
  return meter.count(8 * kPeriod);
}

TEST(LossMeter, APeriodWhoseLossesAreThoseOfAFullQueueIsNoneWithALoss) {
  constexpr TimeNs kLeast = 50 * kMicrosecond;
  const LossCount full = count_with_queues(11 * kMillisecond, 8 * kMillisecond, kLeast);
  EXPECT_EQ(full.lost, 7U) << "packets count all the same";
  EXPECT_EQ(full.lossy, 0U);
  EXPECT_EQ(count_with_queues(5 * kMillisecond, 8 * kMillisecond, kLeast).lossy, 0U);
  EXPECT_EQ(count_with_queues(3 * kMillisecond, 8 * kMillisecond, kLeast).lossy, 8U)
      << "less than half of the longest queue";
}

TEST(LossMeter, AConnectionThatLosesAQuarterHasNoRoundTripToGoBy) {
  constexpr TimeNs kRoundTrip = 8 * kMillisecond;
  EXPECT_EQ(count_with_queues(kRoundTrip, kRoundTrip, kMicrosecond, 4).lossy, 0U);
  EXPECT_EQ(count_with_queues(kRoundTrip, kRoundTrip, kMicrosecond, 5).lossy, 8U);
}

TEST(LossMeter, AQueueShorterThanTheEmptyPathIsNone) {
  constexpr TimeNs kLeast = 50 * kMicrosecond;
  EXPECT_EQ(count_with_queues(90 * kMicrosecond, 80 * kMicrosecond, kLeast).lossy, 8U);
}

TEST(LossMeter, WithoutRoundTripsEveryLossCounts) {
  EXPECT_EQ(count_with_queues(0, 0, 0).lossy, 8U);
}

TEST(LossMeter, ForgetsCountsOlderThanItsWindow) {
  const std::vector<Step> steps = {{1, {100, 5, 90}}, {2, {200, 9, 190}}};
  EXPECT_GT(count_of(steps, 30).lost, 0U);
  EXPECT_EQ(count_of(steps, 40), LossCount{});
}

}  // namespace
}  // namespace r2ccl
