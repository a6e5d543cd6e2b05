#include "runtime/peers/pause_meter.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

class HandClock final : public Clock {
 public:
  TimeNs now() const override { return at; }
  TimeNs wall() const override { return at; }
  TimeNs at = kSecond;
};

class PauseMeterTest : public testing::Test {
 protected:
  // One pass that takes no time, and is due again after `wait`.
  void pass(TimeNs wait) {
    meter_.begin(clock_.at);
    meter_.end();
    meter_.promise(clock_.at + wait);
  }

  HandClock clock_;
  PauseMeter meter_{clock_};
};

TEST_F(PauseMeterTest, CountsTheTimeSinceThePassThatWasDue) {
  pass(10 * kMillisecond);
  const TimeNs before = meter_.total();
  clock_.at += 10 * kMillisecond + kSecond;
  pass(10 * kMillisecond);
  EXPECT_EQ(meter_.total() - before, kSecond);
}

TEST_F(PauseMeterTest, CountsNoShortDelay) {
  pass(10 * kMillisecond);
  const TimeNs before = meter_.total();
  clock_.at += 10 * kMillisecond + limits::kPauseThreshold;
  pass(10 * kMillisecond);
  EXPECT_EQ(meter_.total(), before);
}

TEST_F(PauseMeterTest, CountsAStopInTheMiddleOfAPassInTheNextOne) {
  pass(0);
  const TimeNs before = meter_.total();
  meter_.begin(clock_.at);
  clock_.at += kSecond;
  meter_.look();
  EXPECT_TRUE(meter_.paused());
  EXPECT_EQ(meter_.total(), before);
  meter_.end();
  meter_.promise(clock_.at);
  pass(0);
  EXPECT_FALSE(meter_.paused());
  EXPECT_EQ(meter_.total() - before, kSecond);
}

}  // namespace
}  // namespace r2ccl
