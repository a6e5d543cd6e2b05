#include "protocol/health/rate_watch.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr uint64_t kFullBytes = 100'000'000;

class Rates : public testing::Test {
 protected:
  // A window in which the two NICs deliver these parts of a whole rate, to host 1.
  bool window(double first, double second, double busy = 1.0, uint32_t host = 1) {
    std::vector<NicWindow> windows;
    for (const double part : {first, second}) {
      windows.push_back({static_cast<uint64_t>(part * busy * kFullBytes),
                         static_cast<TimeNs>(busy * RateWatch::kWindow), host,
                         static_cast<uint16_t>(windows.size())});
    }
    return watch_.on_window(windows, RateWatch::kWindow);
  }
  void windows(int count, double first, double second, double busy = 1.0) {
    for (int i = 0; i < count; ++i) window(first, second, busy);
  }

  RateWatch watch_{2};
};

TEST_F(Rates, ANicThatStaysSlowIsFoundAndFoundWholeAgain) {
  windows(5, 1, 1);
  EXPECT_TRUE(watch_.slow().empty());
  EXPECT_FALSE(window(1, 0.5));
  EXPECT_FALSE(window(1, 0.52));
  EXPECT_TRUE(window(1, 0.48));
  EXPECT_EQ(watch_.slow(), (std::vector<SlowNic>{{1, 500, 1, 1}}));
  windows(2, 1, 1);
  EXPECT_FALSE(watch_.slow().empty());
  EXPECT_TRUE(window(1, 1));
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, AShortDipChangesNothing) {
  windows(5, 1, 1);
  for (int i = 0; i < 10; ++i) {
    windows(2, 1, 0.5);
    windows(1, 1, 1);
  }
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, ShortOperationsShowNothing) {
  windows(5, 1, 1);
  windows(10, 0.5, 0.2, 0.8);
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, ACauseThatSlowsAllNicsIsNoNics) {
  windows(5, 1, 1);
  windows(10, 0.5, 0.5);
  windows(10, 0.6, 0.3);
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, ANicThatWasAlwaysSlowIsWhole) {
  windows(20, 1, 0.3);
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, ADeviationWithinTheNoiseChangesNothing) {
  windows(5, 1, 1);
  windows(20, 1, 0.85);
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, ANicThatIsSlowTowardsChangingHostsIsNotFound) {
  windows(5, 1, 1);
  for (uint32_t i = 0; i < 20; ++i) window(1, 0.5, 1, 1 + i % 2);
  EXPECT_TRUE(watch_.slow().empty());
}

// Plans that follow its rate leave it idle for some time.
TEST_F(Rates, ANicWithLessToDoIsFoundWholeAgain) {
  windows(5, 1, 1);
  windows(3, 1, 0.5);
  ASSERT_EQ(watch_.slow().size(), 1U);
  windows(3, 1, 1, 0.4);
  EXPECT_EQ(watch_.slow().size(), 1U);
  windows(3, 1, 1, 0.6);
  EXPECT_TRUE(watch_.slow().empty());
}

TEST_F(Rates, AFindingThatNothingConfirmsIsForgotten) {
  windows(5, 1, 1);
  windows(3, 1, 0.5);
  windows(RateWatch::kMemory - 1, 0, 0, 0);
  EXPECT_EQ(watch_.slow().size(), 1U);
  EXPECT_TRUE(window(0, 0, 0));
  EXPECT_TRUE(watch_.slow().empty());
}

}  // namespace
}  // namespace r2ccl
