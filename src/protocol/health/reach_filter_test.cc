#include "protocol/health/reach_filter.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr TimeNs kMs = kMillisecond;
constexpr NicReach kWhole{};

// A host with two NICs whose second one changes.
class ReachFilterTest : public testing::Test {
 protected:
  void observe(std::optional<NicReach> second, TimeNs now) {
    filter_.observe({kWhole, second}, now);
  }
  std::optional<NicReach> reported(TimeNs now) { return filter_.reported(now)[1]; }

  ReachFilter filter_{{kWhole, kWhole}};
};

TEST_F(ReachFilterTest, ReportsALossAndAReturnSoon) {
  observe(kWhole, 0);
  EXPECT_EQ(filter_.next_timeout(), kNever);
  observe(NicReach{0, 3}, kSecond);
  EXPECT_EQ(filter_.next_timeout(), kSecond + ReachFilter::kReportAfter);
  EXPECT_EQ(reported(kSecond + ReachFilter::kReportAfter - 1), kWhole);
  EXPECT_EQ(reported(kSecond + ReachFilter::kReportAfter), (NicReach{0, 3}));
  EXPECT_EQ(filter_.next_timeout(), kNever);
  observe(kWhole, 2 * kSecond);
  EXPECT_EQ(reported(2 * kSecond + ReachFilter::kReportAfter), kWhole);
}

TEST_F(ReachFilterTest, ReportsADrainedNic) {
  observe(kWhole, 0);
  observe(std::nullopt, kSecond);
  EXPECT_EQ(reported(2 * kSecond), std::nullopt);
}

TEST_F(ReachFilterTest, ReportsNoShortLoss) {
  observe(kWhole, 0);
  observe(NicReach{0, 3}, kSecond);
  observe(kWhole, kSecond + 10 * kMs);
  EXPECT_EQ(filter_.next_timeout(), kNever);
  EXPECT_EQ(reported(10 * kSecond), kWhole);
}

TEST_F(ReachFilterTest, ReportsPathsThatFailOneAfterTheOtherAtOnce) {
  observe(kWhole, 0);
  observe(NicReach{1, 2}, kSecond);
  observe(NicReach{0, 3}, kSecond + 15 * kMs);
  EXPECT_EQ(filter_.next_timeout(), kSecond + ReachFilter::kReportAfter);
  EXPECT_EQ(reported(kSecond + ReachFilter::kReportAfter), (NicReach{0, 3}));
}

TEST_F(ReachFilterTest, GivesNicsTimeToConnectAtTheStart) {
  observe(NicReach{0, 3}, 0);
  EXPECT_EQ(filter_.next_timeout(), ReachFilter::kFirstLossAfter);
  EXPECT_EQ(reported(ReachFilter::kFirstLossAfter - 1), kWhole);
  EXPECT_EQ(reported(ReachFilter::kFirstLossAfter), (NicReach{0, 3}));
}

}  // namespace
}  // namespace r2ccl
