#include "protocol/path/heartbeats.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/limits.h"
#include "testing/fake_path.h"

namespace r2ccl {
namespace {

// Not on a boundary of the wall clock, nor of this one.
constexpr TimeNs kStart = 1000 * kSecond + 300 * kMillisecond;
constexpr TimeNs kWallAhead = 5 * kSecond + 450 * kMillisecond;

using Indexes = std::vector<size_t>;

class HeartbeatsTest : public testing::Test {
 protected:
  void make(size_t paths, bool opens, size_t links, size_t shift = 0) {
    std::vector<PathEnd*> ends;
    for (size_t i = 0; i < paths; ++i) {
      paths_.push_back(std::make_unique<FakePath>(i));
      paths_.back()->bring_up(kStart);
      ends.push_back(paths_.back().get());
    }
    heartbeats_ = std::make_unique<Heartbeats>(ends, opens, links, shift);
    now_.time = kStart;
    now_.heard_at = kStart;
    (void)take();  // the first interval of a link counts as work
    for (auto& path : paths_) path->health.last_ping_at = 0;
  }

  // Lets the interval end, and returns the paths that are pinged then.
  Indexes next() {
    EXPECT_FALSE(heartbeats_->due(heartbeats_->next_at() - 1));
    now_.time = heartbeats_->next_at();
    EXPECT_TRUE(heartbeats_->due(now_.time));
    return take();
  }

  Indexes take() {
    now_.wall = now_.time + kWallAhead;
    Indexes indexes;
    for (PathEnd* path : heartbeats_->take(now_)) {
      path->health.last_ping_at = now_.time;
      indexes.push_back(path->index);
    }
    heartbeats_->check_invariants();
    return indexes;
  }

  // Returns whether the interval ends less than this after the peer was heard.
  bool next_is_within(TimeNs bound) const { return heartbeats_->next_at() - now_.heard_at < bound; }

  std::vector<std::unique_ptr<FakePath>> paths_;
  std::unique_ptr<Heartbeats> heartbeats_;
  Heartbeats::Now now_;
};

TEST_F(HeartbeatsTest, AnIdleLinkChecksItsStreamsInTurnAndEachOnceInAPeriod) {
  make(5, true, limits::kIdleChecksMax / 2, 3);
  EXPECT_EQ(heartbeats_->period(), 3 * kSecond);
  EXPECT_EQ(next(), (Indexes{1, 2})) << "the streams of three intervals come before";
  EXPECT_EQ(next(), (Indexes{3, 4}));
  EXPECT_EQ(next(), (Indexes{0, 1}));
  EXPECT_EQ(next(), (Indexes{2, 3}));
}

TEST_F(HeartbeatsTest, ALinkThatCarriesChunksChecksAllItsStreams) {
  make(3, true, limits::kIdleChecksMax);
  EXPECT_EQ(next().size(), 1u);
  ++now_.work;
  EXPECT_EQ(next(), (Indexes{1, 2, 0}));
  EXPECT_EQ(next(), (Indexes{1})) << "idle again: it goes on in turn";
}

TEST_F(HeartbeatsTest, SmallLinksCheckAllStreamsInEveryInterval) {
  make(3, true, 1);
  EXPECT_EQ(heartbeats_->period(), kSecond);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), (Indexes{0, 1, 2}));
}

TEST_F(HeartbeatsTest, TheEndThatDoesNotOpenPingsOnlyWhenItHearsNothing) {
  make(3, false, limits::kIdleChecksMax);
  for (int i = 0; i < 5; ++i) {
    now_.heard_at = heartbeats_->next_at() - 900 * kMillisecond;
    EXPECT_EQ(next(), Indexes{});
  }
  EXPECT_EQ(next().size(), 1u) << "unheard for 1.9 s";
  EXPECT_EQ(next().size(), 1u);
}

TEST_F(HeartbeatsTest, IdleLinksOfARankWithManyTakeTurns) {
  constexpr size_t kLinks = 2 * limits::kIdleChecksMax + 1;
  EXPECT_EQ(Heartbeats::idle_interval(kLinks), 3 * kSecond);
  make(2, true, kLinks, 4);
  EXPECT_EQ(heartbeats_->period(), 6 * kSecond);
  std::vector<size_t> pinged;
  for (int i = 0; i < 7; ++i) {
    now_.heard_at = now_.time;
    for (const size_t path : next()) {
      EXPECT_EQ(now_.wall / kSecond % 3, 1) << "one interval after a multiple of three: shift 4";
      pinged.push_back(path);
    }
  }
  EXPECT_GE(pinged.size(), 2u);
  EXPECT_LE(pinged.size(), 3u);
  EXPECT_NE(pinged[0], pinged[1]);
  ++now_.work;
  EXPECT_EQ(next().size(), 2u) << "a link that works needs no turn";
}

TEST_F(HeartbeatsTest, ALinkThatHearsNothingInItsTurnWaitsForNoOther) {
  for (const bool opens : {true, false}) {
    paths_.clear();
    make(2, opens, 2 * limits::kIdleChecksMax);
    while (next_is_within(2500 * kMillisecond)) (void)next();
    EXPECT_EQ(next().size(), 1u);
    EXPECT_EQ(next().size(), 1u);
  }
}

TEST_F(HeartbeatsTest, AnIntervalEndsWithASecondOfTheWallClock) {
  make(2, true, limits::kIdleChecksMax);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((heartbeats_->next_at() + kWallAhead) % kSecond, 0);
    (void)next();
  }
  // A rank that runs late is on time for the next one.
  now_.time = heartbeats_->next_at() + 700 * kMillisecond;
  (void)take();
  EXPECT_EQ(heartbeats_->next_at() - now_.time, 300 * kMillisecond);
}

TEST_F(HeartbeatsTest, StreamsThatCannotAnswerOrHaveJustBeenPingedGiveTheirTurnAway) {
  make(5, true, limits::kIdleChecksMax);
  paths_[0]->writable = false;
  paths_[1]->broken = DownCause::connection_lost;
  paths_[2]->is_paused = true;
  paths_[3]->health.last_ping_at = heartbeats_->next_at() - 100 * kMillisecond;
  EXPECT_EQ(next(), (Indexes{4}));
  paths_[0]->writable = true;
  EXPECT_EQ(next(), (Indexes{0}));
  EXPECT_EQ(next(), (Indexes{3}));
}

TEST_F(HeartbeatsTest, ALinkWithoutAStreamWaitsForTheNextInterval) {
  make(2, true, 2);
  for (auto& path : paths_) path->lose(DownCause::silent, kStart);
  EXPECT_EQ(next(), Indexes{});
  EXPECT_GT(heartbeats_->next_at(), now_.time);
}

TEST_F(HeartbeatsTest, ASilentPeerGetsFewerAndFewer) {
  make(2, true, 2);
  now_.spacing = 7 * kSecond;
  EXPECT_EQ(next().size(), 2u);
  EXPECT_EQ(heartbeats_->next_at(), now_.time + 7 * kSecond);
}

}  // namespace
}  // namespace r2ccl
