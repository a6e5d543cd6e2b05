// What a slow path, or one that has shown nothing yet, does to PathModel.
#include "protocol/path/path_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "protocol/path/path_driver_test.h"

namespace r2ccl {
namespace {

using namespace path_driver;

TEST(PathModel, HopesForWhatOthersShowUntilItHasShownARate) {
  PathModel model;
  model.compare({0.5, kNever, 0});
  EXPECT_EQ(model.bytes_per_ns(), 0.5);
  EXPECT_FALSE(model.rate_known());
}

// A path that has shown a tenth of what the others have, and is now idle.
Driver slow_path() {
  Driver d(Wire(kGigabit250 / 10, 100 * kMicrosecond));
  d.run_for(kSecond);
  d.drain();
  d.model.compare({kGigabit250, 100 * kMicrosecond, 0});
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 10, 2);
  return d;
}

TEST(PathModel, APathThatWasSlowIsProbedWhileItIsIdle) {
  Driver d = slow_path();
  EXPECT_FALSE(d.model.wants_probe(d.now)) << "it has just shown its rate";
  d.now += 100 * kMillisecond;
  EXPECT_TRUE(d.model.wants_probe(d.now));
  d.send(16'384);
  EXPECT_FALSE(d.model.wants_probe(d.now)) << "one is under way";
  d.receive();
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 10, 2) << "still slow";
  d.now += 100 * kMillisecond;
  d.wire.rate = kGigabit250;
  d.send(16'384);
  d.receive();
  EXPECT_GT(in_percent(d.model.bytes_per_ns(), kGigabit250), 80);
  EXPECT_FALSE(d.model.wants_probe(d.now + kSecond)) << "chunks will show the rest";
}

TEST(PathModel, AProbeThatABucketLetThroughMisleadsOnceAndThenSeldom) {
  Driver d = slow_path();
  int misled = 0;
  for (int i = 0; i < 1200; ++i) {  // two minutes
    d.now += 100 * kMillisecond;
    d.wire.give_tokens(16'384);
    d.send(16'384);
    d.receive();
    if (in_percent(d.model.bytes_per_ns(), kGigabit250) < 50) continue;
    ++misled;
    d.send(46'912);
    d.receive();
    EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 10, 2);
  }
  EXPECT_GE(misled, 5);
  EXPECT_LE(misled, 12);
}

TEST(PathModel, LoneTransmissionsShowThatAPathHasBecomeSlow) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(kSecond);
  d.drain();
  d.model.compare({kGigabit250, 100 * kMicrosecond, 0});
  d.wire.rate = kGigabit250 / 10;
  d.ping_pong(16'384, 10 * kMillisecond, 2);
  EXPECT_GT(in_percent(d.model.bytes_per_ns(), kGigabit250), 80) << "it may be the schedulers";
  d.ping_pong(16'384, 10 * kMillisecond, 1);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 10, 2);
}

}  // namespace
}  // namespace r2ccl
