// Paths that have become slow or long, and how they show that they are well again.
#include <gtest/gtest.h>

#include "protocol/path/path_model.h"
#include "testing/path_driver.h"

namespace r2ccl {
namespace {

// Returns an idle path that has shown a tenth of the others' rate.
Driver slow_path() {
  Driver d(Wire(kGigabit250 / 10, 100 * kMicrosecond));
  d.run_for(kSecond);
  d.drain();
  d.model.compare(best_path(100 * kMicrosecond));
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

TEST(PathModel, APathThatAQueueMadeLongIsProbedAfterAFewTimesThatQueueWithTheBytesOfItsChunk) {
  Driver d(Wire(kGigabit250, 100 * kMicrosecond));
  d.run_for(kSecond);
  d.drain();
  constexpr TimeNs kExcess = 5 * kMillisecond;
  PathModel::Best best = best_path(100 * kMicrosecond);
  best.one_way = d.model.recent_one_way() - kExcess;
  best.one_way_max = best.one_way + 100 * kMicrosecond;
  d.model.compare(best);
  d.send(4096);
  d.receive();
  EXPECT_EQ(d.model.probe_bytes(), 4096u);
  const TimeNs excess = d.model.recent_one_way() - best.one_way;
  EXPECT_NEAR(to_ms(excess), to_ms(kExcess), 0.5);
  EXPECT_FALSE(d.model.wants_probe(d.now + 3 * excess - 1));
  EXPECT_TRUE(d.model.wants_probe(d.now + 3 * excess));
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
  d.model.compare(best_path(100 * kMicrosecond));
  d.wire.rate = kGigabit250 / 10;
  d.ping_pong(16'384, 10 * kMillisecond, 7);
  EXPECT_GT(in_percent(d.model.bytes_per_ns(), kGigabit250), 80) << "it may be another's queue";
  d.ping_pong(16'384, 10 * kMillisecond, 1);
  EXPECT_NEAR(in_percent(d.model.bytes_per_ns(), kGigabit250), 10, 2);
}

}  // namespace
}  // namespace r2ccl
