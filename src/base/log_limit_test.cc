#include "base/log_limit.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr LogSite kHere{"here.cc", 1};
constexpr LogSite kThere{"here.cc", 2};

int admitted(LogLimit& limit, const LogSite& site, int lines, TimeNs now) {
  int count = 0;
  for (int i = 0; i < lines; ++i) {
    count += limit.admit(site, LogLevel::info, "line " + std::to_string(i), now) ? 1 : 0;
  }
  return count;
}

TEST(LogLimit, WritesTheFirstLinesOfEachSecondAndCountsTheRest) {
  LogLimit limit;
  EXPECT_EQ(admitted(limit, kHere, 1000, 0), LogLimit::kLinesPerWindow);
  EXPECT_FALSE(limit.all_told());
  EXPECT_FALSE(limit.take_suppressed(LogLimit::kWindow - 1)) << "it may still get more";
  const auto suppressed = limit.take_suppressed(LogLimit::kWindow);
  ASSERT_TRUE(suppressed);
  EXPECT_EQ(suppressed->lines, 1000u - LogLimit::kLinesPerWindow);
  EXPECT_EQ(suppressed->level, LogLevel::info);
  EXPECT_EQ(suppressed->last, "line 999");
  EXPECT_TRUE(limit.all_told());
  EXPECT_FALSE(limit.take_suppressed(kNever)) << "told once";
}

TEST(LogLimit, AKindThatFloodsHidesNoOther) {
  LogLimit limit;
  EXPECT_EQ(admitted(limit, kHere, 1000, 0), LogLimit::kLinesPerWindow);
  EXPECT_EQ(admitted(limit, kThere, 3, 0), 3);
}

TEST(LogLimit, IsBoundedHoweverLongItGoesOn) {
  LogLimit limit;
  int written = 0;
  uint64_t told = 0;
  constexpr int kSeconds = 30;
  for (TimeNs now = 0; now < kSeconds * kSecond; now += kMillisecond) {
    if (const auto suppressed = limit.take_suppressed(now)) {
      ++written;
      told += suppressed->lines;
    }
    written += admitted(limit, kHere, 5, now);
  }
  EXPECT_LE(written, kSeconds * (LogLimit::kLinesPerWindow + 1));
  EXPECT_GE(written, kSeconds * LogLimit::kLinesPerWindow);
  if (const auto suppressed = limit.take_suppressed(kNever)) told += suppressed->lines;
  EXPECT_EQ(told, 5u * 1000 * kSeconds - LogLimit::kLinesPerWindow * kSeconds);
}

TEST(LogLimit, LinesThatComeSeldomAreAllWritten) {
  LogLimit limit;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(admitted(limit, kHere, 1, i * kSecond / LogLimit::kLinesPerWindow), 1);
  }
  EXPECT_TRUE(limit.all_told());
}

}  // namespace
}  // namespace r2ccl
