#include "protocol/path/failure_detector.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "testing/fake_path.h"

namespace r2ccl {
namespace {

// Times in the tables are microseconds after this.
constexpr TimeNs kStart = 1000 * kSecond;
// On a new path this frame is overdue after 151.1 ms: 1 ms delay, 0.1 ms on the wire, 150 ms
// margin.
constexpr uint32_t kFrame = 3000;

enum class Event : uint8_t {
  send,      // a data frame goes out on the path
  deliver,   // a control frame acknowledges all data frames of the path
  ping,      // a ping goes out on the path
  pong,      // the pong to the newest ping comes on the path
  pongs,     // on every path but this one
  evidence,  // a control frame shows that the peer acted on something sent just now
  kernel,    // the peer's kernel answers a plain connect on the path
  owes,      // the kernel has had no acknowledgement on the path's data connection for 350 ms
  pause,     // this process stood still for 50 ms
  run,
};

using Strings = std::vector<std::string>;

struct Step {
  TimeNs at_us;
  Event event;
  size_t path = 0;
  Strings actions = {};  // that follow
};

const Strings kPingAll = {"ping 0", "ping 1", "ping 2"};

Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Three data paths, or one and the out-of-band path, with a round trip of 1 ms each.
class DetectorTest : public testing::Test {
 protected:
  void SetUp() override { make({false, false, false}); }

  void make(const std::vector<bool>& control_only, TimeNs heartbeat = kSecond) {
    paths_.clear();
    std::vector<PathEnd*> ends;
    for (size_t i = 0; i < control_only.size(); ++i) {
      paths_.push_back(std::make_unique<FakePath>(i, control_only[i]));
      ends.push_back(paths_.back().get());
    }
    actions_.prompt = 10 * kMillisecond;
    detector_ = std::make_unique<FailureDetector>(actions_, ends, heartbeat);
    actions_.detector = detector_.get();
    for (const auto& path : paths_) {
      path->bring_up(kStart - kSecond);
      actions_.send_ping(*path, kStart - 2 * kMillisecond);
      pong(*path, kStart - 1 * kMillisecond);
    }
    (void)actions_.take();
  }

  void pong(FakePath& path, TimeNs now) {
    detector_->on_frame(now);
    detector_->on_pong(path, path.health.pings.back().number, now);
  }

  void apply(const Step& step, TimeNs now) {
    FakePath& path = *paths_[step.path];
    switch (step.event) {
      case Event::send:
        return path.send(kFrame, now);
      case Event::deliver:
        detector_->on_frame(now);
        return path.deliver(now);
      case Event::ping:
        (void)detector_->on_ping_sent(path, false, now);
        return;
      case Event::pong:
        return pong(path, now);
      case Event::pongs:
        for (const auto& other : paths_) {
          if (other.get() != &path) pong(*other, now);
        }
        return;
      case Event::evidence:
        detector_->on_frame(now);
        return detector_->on_evidence(now);
      case Event::kernel:
        path.health.kernel_answered_at = now;
        return;
      case Event::owes:
        path.data_owed = 350 * kMillisecond;
        return;
      case Event::pause:
        return detector_->compensate_pause(50 * kMillisecond, now);
      case Event::run:
        return detector_->run(now);
    }
  }

  void play(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      apply(step, kStart + step.at_us * kMicrosecond);
      EXPECT_EQ(actions_.take(), step.actions) << "at " << step.at_us << " us";
      detector_->check_invariants();
    }
  }

  RecordedActions actions_;
  std::vector<std::unique_ptr<FakePath>> paths_;
  std::unique_ptr<FailureDetector> detector_;
};

// Path 0 is suspect from 153 ms on.
const std::vector<Step> kSuspect = {
    {0, Event::send, 0},
    {151'000, Event::run},
    {152'000, Event::run, 0, kPingAll},
    {153'000, Event::pongs, 0},
    {153'000, Event::run, 0, {"suspect by data 0", "probe 0"}},
};

TEST_F(DetectorTest, SuspectsAnOverduePathOnceThePeerActedOnSomethingLater) {
  play(kSuspect);
}

TEST_F(DetectorTest, PingsAndSuspectsNoPathWithoutEvidence) {
  play({
      {0, Event::send, 0},
      {152'000, Event::run, 0, kPingAll},
      {156'000, Event::run},
  });
}

TEST_F(DetectorTest, SuspectsNoPathWhenAllAreOverdueTogether) {
  play({
      {0, Event::send, 0},
      {0, Event::send, 1},
      {0, Event::send, 2},
      {152'000, Event::run, 0, kPingAll},
      {158'000, Event::run, 0, kPingAll},
      {1'000'000, Event::run, 0, kPingAll + Strings{"reconnect 0", "reconnect 1", "reconnect 2"}},
  });
}

TEST_F(DetectorTest, TheLastPathFailsOnlyAfterHalfASecondOfEvidence) {
  make({false, true});
  const Strings ping_both = {"ping 0", "ping 1"};
  play({
      {0, Event::send, 0},
      {152'000, Event::run, 0, ping_both},
      {153'000, Event::pong, 1},
      {153'000, Event::run},
      {640'000, Event::evidence},
      {640'000, Event::run, 0, ping_both},
      {652'000, Event::evidence},
      {652'000, Event::run, 0, ping_both + Strings{"fail silent 0"}},
  });
}

TEST_F(DetectorTest, ClearsASuspectPathWhenItsDataArrive) {
  play(kSuspect);
  play({
      {160'000, Event::deliver, 0},
      {160'000, Event::run, 0, {"clear 0"}},
  });
}

TEST_F(DetectorTest, ASuspectPathWithoutASignOfLifeIsSilentAfter100Ms) {
  play(kSuspect);
  play({
      {204'000, Event::run, 0, Strings{"probe 0"} + kPingAll},
      {205'000, Event::pongs, 0},
      {252'000, Event::run, 0, Strings{"probe 0"} + kPingAll},
      {254'000, Event::pongs, 0},
      {254'000, Event::run, 0, {"probe 0", "fail silent 0"}},
  });
}

TEST_F(DetectorTest, APauseOfThisProcessMakesASuspicionNoLonger) {
  play(kSuspect);
  constexpr TimeNs kPause = 1000 * kSecond;
  const TimeNs after = kStart + 154 * kMillisecond + kPause;
  detector_->compensate_idle(kPause, after);
  detector_->on_evidence(after);
  detector_->run(after + kMillisecond);
  EXPECT_EQ(paths_[0]->state.phase(), PathPhase::suspect);
  EXPECT_LT(after - paths_[0]->state.since(), 2 * kMillisecond);
}

TEST_F(DetectorTest, APauseOfThisProcessForgetsNoSignOfLife) {
  play(kSuspect);
  play({{160'000, Event::kernel, 0}});
  detector_->compensate_idle(10 * kMillisecond, kStart + 170 * kMillisecond);
  play({
      {214'000, Event::run, 0, kPingAll},
      {215'000, Event::pongs, 0},
      {300'000, Event::evidence},
      {300'000, Event::run, 0, kPingAll},
  });
  EXPECT_EQ(paths_[0]->state.phase(), PathPhase::suspect);
}

TEST_F(DetectorTest, AnAcknowledgedPingOfASuspectPathIsASignOfLife) {
  play(kSuspect);
  paths_[0]->control_owed = 0;
  play({
      {154'000, Event::run, 0, {"probe 0"}},
      {204'000, Event::run, 0, Strings{"probe 0"} + kPingAll},
      {205'000, Event::pongs, 0},
      {254'000, Event::run, 0, kPingAll},
      {552'000, Event::pongs, 0},
      {552'000, Event::run, 0, kPingAll},
      {554'000, Event::run, 0, {"fail stalled 0"}},
  });
}

TEST_F(DetectorTest, ASuspectPathWaitsWhileThePeerAnswersNowhere) {
  play(kSuspect);
  play({
      {204'000, Event::run, 0, Strings{"probe 0"} + kPingAll},
      {222'000, Event::run, 0, Strings{"probe 0"} + kPingAll},
      {254'000, Event::run, 0, Strings{"probe 0"} + kPingAll},
  });
  EXPECT_EQ(paths_[0]->state.phase(), PathPhase::suspect);
}

TEST_F(DetectorTest, ASuspectPathWhoseKernelAnswersIsStalledAfter400Ms) {
  play(kSuspect);
  play({
      {160'000, Event::kernel, 0},
      {204'000, Event::run, 0, kPingAll},
      {205'000, Event::pongs, 0},
      {552'000, Event::run, 0, kPingAll},
      {553'000, Event::pongs, 0},
      {554'000, Event::run, 0, {"fail stalled 0"}},
  });
}

TEST_F(DetectorTest, AConnectionThatWaitsForItsRetransmissionTimerIsStalledSooner) {
  play(kSuspect);
  play({
      {160'000, Event::kernel, 0},
      {160'000, Event::owes, 0},
      {204'000, Event::run, 0, kPingAll},
      {205'000, Event::pongs, 0},
      {299'000, Event::run, 0, kPingAll},
      {301'000, Event::run, 0, {"fail stalled 0"}},
  });
}

TEST_F(DetectorTest, PingsAfter5And10AndThenEvery20MsUntilThePeerIsSilentForLong) {
  play({{0, Event::send, 0}, {0, Event::send, 1}, {0, Event::send, 2}});
  std::vector<TimeNs> pinged_ms;
  for (TimeNs ms = 140; ms <= 280; ++ms) {
    detector_->run(kStart + ms * kMillisecond);
    const Strings actions = actions_.take();
    if (!actions.empty() && actions.front() == "ping 0") pinged_ms.push_back(ms);
  }
  // From 247 ms on a quarter of the silence is longer than 20 ms.
  EXPECT_EQ(pinged_ms, (std::vector<TimeNs>{152, 157, 167, 187, 207, 227, 247, 271}));
}

// A suspect path that shows no sign of life gets a ping of its own, for the first one may have been
// acknowledged before the suspicion.
TEST_F(DetectorTest, PingsOneWitnessInTurnAboutAnIdlePath) {
  play({
      {0, Event::ping, 0},
      {11'000, Event::run},
      {13'000, Event::run, 0, {"ping 1"}},
      {14'000, Event::pong, 1},
      {14'000, Event::run, 0, {"suspect by control stream 0", "probe 0"}},
      {65'000, Event::run, 0, {"probe 0", "ping 2", "ping 0"}},
      {70'000, Event::run, 0, {"probe 0"}},
  });
}

TEST_F(DetectorTest, ASlowControlStreamIsNoWitness) {
  paths_[1]->health.last_round_trip = 11 * kMillisecond;
  play({
      {0, Event::ping, 0},
      {13'000, Event::run, 0, {"ping 2"}},
  });
}

TEST_F(DetectorTest, PingsAllControlStreamsWhenTheWitnessSendsNoPong) {
  play({
      {0, Event::ping, 0},
      {13'000, Event::run, 0, {"ping 1"}},
      {19'000, Event::run, 0, kPingAll},
  });
}

TEST_F(DetectorTest, ReconnectsWhenNotEvenTheKernelHasAnsweredFor100Ms) {
  play({
      {0, Event::send, 0},
      {152'000, Event::run, 0, kPingAll},
      {251'000, Event::run, 0, kPingAll},
      {252'000, Event::run, 0, {"reconnect 0", "reconnect 1", "reconnect 2"}},
  });
}

TEST_F(DetectorTest, AnAnswerOfTheKernelPutsOffTheReconnect) {
  play({
      {0, Event::send, 0},
      {152'000, Event::run, 0, kPingAll},
      {200'000, Event::kernel, 1},
      {251'000, Event::run, 0, kPingAll},
      {252'000, Event::run},
      {275'000, Event::run},
      {300'000, Event::run, 0, kPingAll + Strings{"reconnect 0", "reconnect 1", "reconnect 2"}},
  });
}

TEST_F(DetectorTest, APausePutsOffTheDeadlinesOfDataAndPongs) {
  play({
      {0, Event::send, 0},
      {100'000, Event::pause},
      {152'000, Event::run},
      {201'000, Event::run},
      {202'000, Event::run, 0, kPingAll},
  });
  make({false, false, false});
  // A pong is never missed later than now.
  play({
      {0, Event::ping, 0},
      {10'000, Event::pause},
      {21'000, Event::run},
      {23'000, Event::run, 0, {"ping 1"}},
  });
}

TEST_F(DetectorTest, NextTimeoutIsTheEarliestDeadline) {
  const auto next_us = [&](TimeNs at_us) {
    const TimeNs next = detector_->next_timeout(kStart + at_us * kMicrosecond);
    return next == kNever ? kNever : (next - kStart) / kMicrosecond;
  };
  EXPECT_EQ(next_us(0), kNever);
  play({{0, Event::send, 0}});
  EXPECT_EQ(next_us(0), 151'100);
  play({{50'000, Event::ping, 1}});
  EXPECT_EQ(next_us(50'000), 62'000);
  paths_[1]->is_paused = true;
  EXPECT_EQ(next_us(50'000), 151'100);
  paths_[1]->is_paused = false;
  play({{63'000, Event::run, 1, {"ping 0"}}});
  EXPECT_EQ(next_us(63'000), 68'000) << "the next question";
  play({{64'000, Event::pong, 0},
        {64'000, Event::run, 0, {"suspect by control stream 1", "probe 1"}}});
  EXPECT_EQ(next_us(64'000), 68'000) << "path 1 still owes its pong";
  EXPECT_EQ(next_us(60'000), 65'000) << "a suspect path is checked every 5 ms";
}

// Links that take turns hear an idle peer less often.
TEST_F(DetectorTest, AsksAPeerThatIsSilentForThreeOfItsHeartbeats) {
  for (const TimeNs heartbeat : {kSecond, 13 * kSecond}) {
    make({false}, heartbeat);
    const TimeNs heard_at = kStart - kMillisecond;
    detector_->run(heard_at + 3 * heartbeat);
    EXPECT_FALSE(detector_->pinged());
    detector_->run(heard_at + 3 * heartbeat + 1);
    EXPECT_TRUE(detector_->pinged());
  }
}

TEST_F(DetectorTest, TellsAProcessThatAnswersFromAKernelAndFromNobody) {
  const auto answerer_at = [&](TimeNs ms) {
    const TimeNs now = kStart + ms * kMillisecond;
    detector_->run(now);
    return detector_->answerer(now);
  };
  EXPECT_EQ(answerer_at(0), Answerer::process) << "nobody has asked";
  detector_->on_doubt(kStart);
  EXPECT_EQ(answerer_at(199), Answerer::process) << "it may answer yet";
  EXPECT_EQ(answerer_at(500), Answerer::nobody);
  paths_[1]->control_owed = 0;  // the kernel has acknowledged the ping
  EXPECT_EQ(answerer_at(550), Answerer::kernel);
  paths_[1]->control_owed = 10 * kSecond;
  EXPECT_EQ(answerer_at(800), Answerer::nobody) << "its word of before is too old";
  pong(*paths_[2], kStart + 801 * kMillisecond);
  EXPECT_EQ(answerer_at(801), Answerer::process);
}

}  // namespace
}  // namespace r2ccl
