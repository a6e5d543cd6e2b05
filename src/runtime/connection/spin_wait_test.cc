#include "runtime/connection/spin_wait.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

// Each wait takes `poll_time`. The event comes in the wait number `event_at`.
class ScriptedPoller final : public Poller {
 public:
  explicit ScriptedPoller(ManualClock& clock) : clock_(clock) {}
  Status add(int, uint64_t token, bool) override {
    token_ = token;
    return {};
  }
  void modify(int, uint64_t, bool) override {}
  void remove(int) override {}
  void wake() override {}
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override {
    timeouts.push_back(timeout_ns);
    clock_.advance(poll_time);
    if (timeouts.size() != event_at) return 0;
    events[0] = {.token = token_, .readable = true, .writable = false};
    return 1;
  }

  TimeNs poll_time = 20 * kMicrosecond;
  size_t event_at = 0;
  std::vector<TimeNs> timeouts;  // of each wait

 private:
  ManualClock& clock_;
  uint64_t token_ = 0;
};

class Ignore final : public EventHandler {
  void on_ready(const PollEvent&) override {}
};

class SpinWaitTest : public testing::Test {
 protected:
  SpinWaitTest() { registration_ = std::move(reactor_.add(1, handler_, false)).value(); }

  // Waits, and returns the timeouts of the polls in microseconds.
  std::vector<TimeNs> poll(TimeNs timeout_us) {
    poller_.timeouts.clear();
    events_ = wait_.poll(reactor_, timeout_us * kMicrosecond);
    std::vector<TimeNs> in_us;
    for (const TimeNs each : poller_.timeouts) in_us.push_back(each / kMicrosecond);
    return in_us;
  }

  using Polls = std::vector<TimeNs>;
  static constexpr TimeNs kWait = 5'000;

  ManualClock clock_;
  ScriptedPoller poller_{clock_};
  Reactor reactor_{poller_};
  Ignore handler_;
  Reactor::Registration registration_;
  TimeNs yield_time_ = 0;
  SpinWait wait_{clock_, true, [this] { clock_.advance(yield_time_); }};
  size_t events_ = 0;
};

TEST_F(SpinWaitTest, AnEventWithinTheSpinEndsTheWaitWithoutASleep) {
  poller_.event_at = 3;
  EXPECT_EQ(poll(kWait), (Polls{0, 0, 0}));
  EXPECT_EQ(events_, 1u);
}

TEST_F(SpinWaitTest, ASpinInVainIsPartOfTheTimeout) {
  EXPECT_EQ(poll(kWait), (Polls{0, 0, 0, 0, 0, 0, 4'900}));
  EXPECT_EQ(events_, 0u);
}

TEST_F(SpinWaitTest, AShortTimeoutBoundsTheSpin) {
  EXPECT_EQ(poll(40), (Polls{0, 0, 0, 0}));
}

TEST_F(SpinWaitTest, AWaitWithoutTimeoutPollsOnce) {
  EXPECT_EQ(poll(0), (Polls{0}));
}

TEST_F(SpinWaitTest, SpinsInVainAreEverRarerUntilOneFindsAnEvent) {
  for (const size_t rests : {1, 3, 7, 15}) {
    EXPECT_EQ(poll(kWait).size(), 7u);
    for (size_t i = 0; i < rests; ++i) EXPECT_EQ(poll(kWait), (Polls{kWait})) << rests;
  }
  poller_.event_at = 1;
  EXPECT_EQ(poll(kWait), (Polls{0}));
  poller_.event_at = 0;
  EXPECT_EQ(poll(kWait).size(), 7u);
  EXPECT_EQ(poll(kWait), (Polls{kWait})) << "one rest again";
  EXPECT_EQ(poll(kWait).size(), 7u);
}

TEST_F(SpinWaitTest, ShortTurnsOfOtherThreadsOnTheCoreAreNoTimeOfTheSpin) {
  yield_time_ = SpinWait::kTurn / 10;
  poller_.poll_time = 4 * kMicrosecond;
  poller_.event_at = 20;
  EXPECT_EQ(poll(kWait).size(), 20u);
  EXPECT_EQ(events_, 1u);
  poller_.event_at = 0;
  const Polls polls = poll(kWait);
  EXPECT_EQ(polls.size(), 22u) << "each takes 4 us and a yield that counts as 1 us";
  EXPECT_EQ(polls.back(), 5'000 - 20 * 104) << "but all of it is part of the timeout";
}

TEST_F(SpinWaitTest, AnotherThreadsLongTurnOnTheCoreEndsTheSpin) {
  yield_time_ = SpinWait::kTurn + kMicrosecond;
  EXPECT_EQ(poll(kWait), (Polls{0, 0, 3'979}));
  for (size_t i = 0; i < SpinWait::kRestMax / 8; ++i) EXPECT_EQ(poll(kWait), (Polls{kWait}));
}

TEST_F(SpinWaitTest, AnEventAfterALongTurnCounts) {
  yield_time_ = SpinWait::kTurn + kMicrosecond;
  poller_.event_at = 2;
  EXPECT_EQ(poll(kWait), (Polls{0, 0}));
  EXPECT_EQ(events_, 1u);
}

TEST_F(SpinWaitTest, WithoutPermissionEveryWaitSleeps) {
  SpinWait never(clock_, false);
  (void)never.poll(reactor_, kMillisecond);
  EXPECT_EQ(poller_.timeouts, (Polls{kMillisecond}));
}

}  // namespace
}  // namespace r2ccl
