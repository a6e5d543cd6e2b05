#include "protocol/path/peer_liveness.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace r2ccl {
namespace {

// Times in the tables are milliseconds after this.
constexpr TimeNs kStart = 1000 * kSecond;
constexpr TimeNs kCutoff = 30 * kSecond;

enum class Event : uint8_t {
  failed,    // a path failed: the peer's kernel closed its connection
  broke,     // a path failed: nothing came of its connection
  all_down,  // no path is connected
  connected,
  refused,  // a kernel refused a connection of the path
  alive,
  no_data,   // no data path carries, and one has carried before
  data,      // a data path carries
  idle_1s,   // this process stood still for 1 s
  idle_2s,   // for 2 s
  goodbye,   // the peer says goodbye
  silent_s,  // the detector says that the whole peer is silent for `value` seconds
  check,
};

struct Step {
  TimeNs at_ms;
  Event event;
  size_t value = 0;                 // a path, or seconds
  std::optional<PeerEnd> end = {};  // that check() returns
};

class PeerLivenessTest : public testing::Test {
 protected:
  void apply(const Step& step, TimeNs now) {
    switch (step.event) {
      case Event::failed:
      case Event::broke:
        return liveness_.on_failed(
            step.value, step.event == Event::failed ? KernelClose::ended : KernelClose::none, now);
      case Event::all_down:
        (void)liveness_.on_all_down(now);
        return;
      case Event::connected:
        return liveness_.on_connected();
      case Event::refused:
        return liveness_.on_refused(step.value, now);
      case Event::alive:
        return liveness_.on_alive();
      case Event::no_data:
      case Event::data:
        return liveness_.on_data_paths(step.event == Event::data, true, now);
      case Event::idle_1s:
        return liveness_.compensate_idle(1 * kSecond, now);
      case Event::idle_2s:
        return liveness_.compensate_idle(2 * kSecond, now);
      case Event::goodbye:
        goodbye_ = true;
        return;
      case Event::silent_s:
        silence_ = static_cast<TimeNs>(step.value) * kSecond;
        return;
      case Event::check: {
        const auto end = liveness_.check({goodbye_, relayed_}, silence_, now);
        EXPECT_EQ(end ? std::optional(end->end) : std::nullopt, step.end)
            << "at " << step.at_ms << " ms";
        return;
      }
    }
  }

  void play(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      apply(step, kStart + step.at_ms * kMillisecond);
      liveness_.check_invariants();
    }
  }

  PeerLiveness liveness_{3, kCutoff};
  bool goodbye_ = false;
  bool relayed_ = false;
  TimeNs silence_ = 0;
};

TEST_F(PeerLivenessTest, AHostIsCutOffWhenAllPathsAreDownForTheBound) {
  play({
      {0, Event::all_down},
      {29'999, Event::check},
      {30'000, Event::check, 0, PeerEnd::cut_off},
      {30'000, Event::connected},
      {30'000, Event::check},
  });
  EXPECT_FALSE(liveness_.all_down());
}

TEST_F(PeerLivenessTest, OnlyTheFirstLossOfAllPathsIsNews) {
  EXPECT_TRUE(liveness_.on_all_down(kStart));
  EXPECT_FALSE(liveness_.on_all_down(kStart + kSecond));
  play({{30'000, Event::check, 0, PeerEnd::cut_off}});
}

TEST_F(PeerLivenessTest, AHostIsCutOffWhenNoDataPathCarriesForTheBound) {
  play({
      {0, Event::no_data},
      {10'000, Event::no_data},  // the first counts
      {29'999, Event::check},
      {30'000, Event::check, 0, PeerEnd::cut_off},
      {30'000, Event::data},
      {30'000, Event::check},
  });
}

TEST_F(PeerLivenessTest, ALinkThatNeverCarriedDataIsNotCutOff) {
  liveness_.on_data_paths(false, false, kStart);
  play({{60'000, Event::check}});
}

TEST_F(PeerLivenessTest, AHostIsCutOffWhenThePeerIsSilentForTheBound) {
  play({
      {0, Event::silent_s, 29},
      {0, Event::check},
      {0, Event::silent_s, 30},
      {0, Event::check, 0, PeerEnd::cut_off},
  });
}

// A stop of the peer ends no link, but where the peer's kernel cannot say whether it has left.
TEST_F(PeerLivenessTest, APeerOfARelayedLinkHasLeftWhenItIsSilentAfterBothGoodbyes) {
  const std::vector<Step> silent = {
      {0, Event::goodbye}, {0, Event::silent_s, 4}, {0, Event::check}, {0, Event::silent_s, 5}};
  play(silent);
  play({{0, Event::check}});
  relayed_ = true;
  play({{0, Event::check, 0, PeerEnd::goodbye}});
  play({{0, Event::silent_s, 4}, {0, Event::check}});
  goodbye_ = false;
  play({{0, Event::silent_s, 29}, {0, Event::check}});
}

TEST_F(PeerLivenessTest, OnlyALongPauseOfThisProcessPutsOffTheCutOff) {
  play({
      {0, Event::all_down},
      {5'000, Event::idle_1s},
      {30'000, Event::check, 0, PeerEnd::cut_off},
      {30'000, Event::idle_2s},
      {30'000, Event::check},
      {32'000, Event::check, 0, PeerEnd::cut_off},
  });
}

TEST_F(PeerLivenessTest, ClosedConnectionsAndTwoRefusalsProveDeath) {
  play({
      {0, Event::failed, 0},
      {0, Event::failed, 1},
      {0, Event::failed, 2},
      {0, Event::all_down},
      {1, Event::refused, 0},
      {1, Event::check},
      {2, Event::refused, 1},
      {2, Event::check, 0, PeerEnd::dead},
      {3, Event::alive},
      {3, Event::check},
  });
}

TEST_F(PeerLivenessTest, RefusalsAfterASilentFailureMustLast) {
  PeerLiveness liveness(1, 300 * kSecond);
  liveness.on_failed(0, KernelClose::none, kStart);
  (void)liveness.on_all_down(kStart);
  const auto end_when_refused = [&](TimeNs after) {
    liveness.on_refused(0, kStart + after);
    return liveness.check({}, 0, kStart + after);
  };
  for (const TimeNs after_s : {1, 2, 3, 10, 30}) {
    EXPECT_FALSE(end_when_refused(after_s * kSecond)) << after_s;
  }
  const auto end = end_when_refused(31 * kSecond);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->end, PeerEnd::dead);
}

TEST_F(PeerLivenessTest, APeerThatSaidGoodbyeHasLeftAtTheFirstRefusal) {
  play({
      {0, Event::goodbye},
      {0, Event::failed, 0},
      {0, Event::check},
      {0, Event::all_down},
      {1, Event::refused, 0},
      {1, Event::check, 0, PeerEnd::goodbye},
  });
}

// A firewall may refuse on one path while the peer waits for this rank's goodbye on another. One
// that a black hole hides looks connected after the peer has left.
TEST_F(PeerLivenessTest, ARefusalOnOnePathSaysNothingOfAPeerThatAnswersOnAnother) {
  play({
      {0, Event::goodbye},
      {0, Event::failed, 0},
      {1, Event::refused, 0},
      {1, Event::check},
      {1, Event::silent_s, 1},
      {1, Event::check, 0, PeerEnd::goodbye},
  });
}

// Its process has ended, and the end of one connection is slow to show.
TEST_F(PeerLivenessTest, APeerThatSaidGoodbyeIsNeverDead) {
  std::vector<Step> steps = {{0, Event::goodbye}, {0, Event::failed, 0}, {0, Event::failed, 1}};
  for (const int64_t at : {1, 2, 3, 4}) {
    for (const size_t path : {0, 1}) steps.push_back({at, Event::refused, path});
  }
  steps.push_back({5, Event::check});
  steps.insert(steps.end(), {{20, Event::failed, 2},
                             {20, Event::all_down},
                             {21, Event::refused, 2},
                             {21, Event::check, 0, PeerEnd::goodbye}});
  play(steps);
}

TEST_F(PeerLivenessTest, APeerThatSaidGoodbyeHasLeftAfter5SWithoutAPath) {
  play({
      {0, Event::goodbye},
      {0, Event::all_down},
      {4'999, Event::check},
      {5'000, Event::check, 0, PeerEnd::goodbye},
  });
}

TEST_F(PeerLivenessTest, NextTimeoutIsTheEarliestBound) {
  EXPECT_EQ(liveness_.next_timeout(kStart), kNever);
  play({{0, Event::no_data}});
  EXPECT_EQ(liveness_.next_timeout(kStart + kSecond), kStart + kCutoff);
  play({{1'000, Event::all_down}});
  EXPECT_EQ(liveness_.next_timeout(kStart + kSecond), kStart + kSecond + 20 * kMillisecond);
}

}  // namespace
}  // namespace r2ccl
