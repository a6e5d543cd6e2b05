#include "protocol/path/nic_queue.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr uint64_t kChunk = 31'250;  // 1 ms at 250 Mbit/s

// Keeps two paths' chunks outstanding on a NIC that delivers one a millisecond.
void run_at_line_rate(NicQueue& queue, TimeNs begin, int chunks) {
  queue.on_sent(kChunk, true, begin);
  queue.on_sent(kChunk, true, begin);
  for (int i = 1; i <= chunks; ++i) {
    queue.on_delivered(kChunk, 0, begin + i * kMillisecond);
    queue.on_sent(kChunk, true, begin + i * kMillisecond);
  }
}

TEST(NicQueue, KnowsTheOutstandingBytesAndTheirNumberOfPaths) {
  NicQueue queue;
  queue.on_sent(100, true, 0);
  queue.on_sent(50, false, 0);
  queue.on_sent(70, true, 0);
  EXPECT_EQ(queue.outstanding(), 220U);
  EXPECT_EQ(queue.busy_paths(), 2U);
  queue.on_delivered(100, 50, 1);
  EXPECT_EQ(queue.busy_paths(), 2U);
  queue.on_delivered(50, 0, 2);
  EXPECT_EQ(queue.busy_paths(), 1U);
  queue.on_lost(70);
  queue.on_lost(0);
  queue.on_delivered(0, 0, 3);
  EXPECT_EQ(queue.outstanding(), 0U);
  EXPECT_EQ(queue.busy_paths(), 0U);
}

TEST(NicQueue, KnowsItsDeliveredBytesAndIdleTime) {
  NicQueue queue;
  const TimeNs before = queue.idle(5);
  queue.on_sent(100, true, 10);
  EXPECT_EQ(queue.idle(20) - before, 5);
  queue.on_delivered(60, 40, 20);
  EXPECT_EQ(queue.idle(25) - before, 5);
  queue.on_delivered(40, 0, 30);
  EXPECT_EQ(queue.idle(37) - before, 12);
  queue.on_sent(10, true, 40);
  EXPECT_EQ(queue.idle(90) - before, 15);
  EXPECT_EQ(queue.delivered(), 100U);
  // The time between a loss and the next bytes counts from the last delivery: too much, not too
  // little.
  queue.on_lost(10);
  queue.on_sent(10, true, 100);
  EXPECT_EQ(queue.idle(100) - before, 85);
}

// Keeps two paths' bytes outstanding, because a NIC's time counts only then.
TimeNs shared_time(NicQueue queue, uint64_t bytes) {
  queue.on_sent(1, true, 0);
  queue.on_sent(1, true, 0);
  return queue.time_of(bytes);
}

TEST(NicQueue, CountsAsSlowUntilItHasShownItsRate) {
  NicQueue queue;
  EXPECT_GT(shared_time(queue, kChunk), 5 * kMillisecond);
  run_at_line_rate(queue, kSecond, 12);
  EXPECT_NEAR(static_cast<double>(shared_time(queue, kChunk)), 1e6, 0.15e6);
}

TEST(NicQueue, GivesNoTimeForASinglePathWhichKnowsBetter) {
  NicQueue queue;
  queue.on_sent(kChunk, true, 0);
  EXPECT_EQ(queue.time_of(kChunk), 0);
  queue.on_sent(kChunk, false, 0);
  EXPECT_EQ(queue.time_of(2 * kChunk), 0);
  queue.on_sent(kChunk, true, 0);
  EXPECT_GT(queue.time_of(3 * kChunk), 0);
}

// 10 Gbit/s, where an operation takes less than a millisecond.
TEST(NicQueue, KnowsItsRateAfterAFewShortOperations) {
  NicQueue queue;
  for (int i = 0; i < 20; ++i) {
    const TimeNs at = (1 + i) * kSecond;
    queue.on_sent(20 * kChunk, true, at);
    queue.on_delivered(20 * kChunk, 0, at + 700 * kMicrosecond);
  }
  EXPECT_NEAR(static_cast<double>(shared_time(queue, 20 * kChunk)), 0.7e6, 0.1e6);
  run_at_line_rate(queue, 100 * kSecond, 24);
  EXPECT_NEAR(static_cast<double>(shared_time(queue, kChunk)), 1e6, 0.15e6)
      << "a long busy time says more than many short ones";
}

TEST(NicQueue, IsNotSlowForATimeInWhichNothingCameThrough) {
  NicQueue queue;
  queue.on_sent(kChunk, true, 0);
  queue.on_delivered(kChunk, 0, 5 * kSecond);
  EXPECT_LT(shared_time(queue, kChunk), 30 * kMillisecond);
  run_at_line_rate(queue, 6 * kSecond, 12);
  queue.on_delivered(kChunk, 0, 20 * kSecond);
  EXPECT_LT(shared_time(queue, kChunk), 1200 * kMicrosecond);
}

TEST(NicQueue, CountsIdleTimeForNothing) {
  NicQueue queue;
  run_at_line_rate(queue, kSecond, 12);
  const TimeNs before = shared_time(queue, kChunk);
  queue.on_lost(kChunk);
  queue.on_lost(kChunk);
  for (int i = 0; i < 1000; ++i) {  // now and then one chunk
    const TimeNs at = (2 + i) * kSecond;
    queue.on_sent(kChunk, true, at);
    queue.on_delivered(kChunk, 0, at + 2 * kMillisecond);
  }
  EXPECT_EQ(shared_time(queue, kChunk), before);
}

}  // namespace
}  // namespace r2ccl
