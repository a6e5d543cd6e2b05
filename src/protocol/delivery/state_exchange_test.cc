#include "protocol/delivery/state_exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace r2ccl {
namespace {

// Times in the tables are microseconds after this.
constexpr TimeNs kStart = 1000 * kSecond;

enum class Event : uint8_t {
  change,        // this end's state changes
  urgent,        // and the peer waits for it
  payload,       // 32 kB of payload arrive
  sent,          // a frame goes out with all changes; the round trip is 1 ms
  sent_to,       // a frame goes out that has room up to version `value`
  backed_off,    // a frame retransmits: back_off() and then as `sent`
  acknowledged,  // the peer acknowledges up to version `value`
  peer_state,    // the peer's state of version `value` comes
  postpone,      // no path takes the frame that is due
  hurry,
  look,
};

struct Step {
  TimeNs at_us;
  Event event;
  uint64_t value = 0;
  // The results of due(): c for a change, r for a retransmission, a for an acknowledgement.
  std::string due = "";
  TimeNs next_us = 0;  // next_timeout(); 0: never, or not looked at
};

class StateExchangeTest : public testing::Test {
 protected:
  void send(uint64_t version, TimeNs now) { state_.on_sent(version, kMillisecond, 0, now); }

  void apply(const Step& step, TimeNs now) {
    switch (step.event) {
      case Event::change:
        return state_.bump_version();
      case Event::urgent:
        return state_.mark_urgent();
      case Event::payload:
        return state_.on_payload(32 * 1024);
      case Event::sent:
        return send(state_.version(), now);
      case Event::sent_to:
        return send(step.value, now);
      case Event::backed_off:
        state_.back_off();
        return send(state_.version(), now);
      case Event::acknowledged:
        return state_.on_acknowledged(step.value);
      case Event::peer_state:
        return state_.on_peer_state(step.value, now);
      case Event::postpone:
        return state_.postpone(state_.due(now), now);
      case Event::hurry:
        return state_.hurry(now);
      case Event::look: {
        const StateExchange::Due due = state_.due(now);
        const std::string said = std::string(due.change ? "c" : "") + (due.retransmit ? "r" : "") +
                                 (due.acknowledge ? "a" : "");
        EXPECT_EQ(said, step.due) << "at " << step.at_us << " us";
        if (step.next_us == 0) return;
        EXPECT_EQ((state_.next_timeout() - kStart) / kMicrosecond, step.next_us)
            << "at " << step.at_us << " us";
        return;
      }
    }
  }

  void play(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      apply(step, kStart + step.at_us * kMicrosecond);
      state_.check_invariants();
    }
  }

  StateExchange state_;
};

// The first state has version 1; the peer has it.
const std::vector<Step> kIdle = {{0, Event::sent}, {0, Event::acknowledged, 1}, {0, Event::look}};

TEST_F(StateExchangeTest, IsDueForNothingWhenThePeerHasTheState) {
  play(kIdle);
  EXPECT_EQ(state_.next_timeout(), kNever);
}

TEST_F(StateExchangeTest, AChangeWaits500UsForCompany) {
  play(kIdle);
  play({
      {1'000, Event::change},
      {1'000, Event::look, 0, "", 1'500},
      {1'400, Event::change},
      {1'499, Event::look, 0, "", 1'500},
      {1'500, Event::look, 0, "c"},
      {1'500, Event::sent},
      {1'500, Event::look, 0, ""},
  });
}

TEST_F(StateExchangeTest, TellsWhetherAFrameThatLeavesNowSavesALaterOne) {
  const auto due_within = [&](TimeNs us, TimeNs at_us) {
    return state_.due_within(us * kMicrosecond, kStart + at_us * kMicrosecond);
  };
  play(kIdle);
  EXPECT_FALSE(due_within(1'000'000, 0));
  play({{1'000, Event::change}});
  EXPECT_FALSE(due_within(250, 1'000));  // the change is of this very pass
  play({{1'000, Event::look, 0, "", 1'500}});
  EXPECT_FALSE(due_within(250, 1'249));
  EXPECT_TRUE(due_within(250, 1'250));
  play({{1'300, Event::sent}});
  EXPECT_FALSE(due_within(1'000'000, 1'300));
  play({{1'400, Event::change}, {1'400, Event::urgent}});
  EXPECT_TRUE(due_within(0, 1'400));
  play({{1'400, Event::sent}, {1'500, Event::peer_state, 9}});
  EXPECT_FALSE(due_within(250, 1'500));
  EXPECT_TRUE(due_within(250, 3'300));  // the acknowledgement of the peer's state
}

TEST_F(StateExchangeTest, AnUrgentChangeIsDueAtOnce) {
  play(kIdle);
  play({
      {1'000, Event::urgent},
      {1'000, Event::look, 0, ""},  // there is no change yet
      {1'100, Event::change},
      {1'100, Event::look, 0, "c"},
      {1'100, Event::sent},
      {1'200, Event::change},
      {1'200, Event::look, 0, ""},
  });
}

TEST_F(StateExchangeTest, UnacknowledgedStateIsDueAgainAfter8Ms) {
  play(kIdle);
  play({
      {0, Event::change},
      {0, Event::sent},
      {0, Event::look, 0, "", 8'000},
      {7'999, Event::look, 0, ""},
      {8'000, Event::look, 0, "r"},
      {8'000, Event::acknowledged, 2},
      {8'000, Event::look, 0, ""},
  });
  EXPECT_EQ(state_.next_timeout(), kNever);
}

TEST_F(StateExchangeTest, TheRetransmissionTimerDoublesUpTo250MsAndStartsAnew) {
  play(kIdle);
  play({
      {0, Event::change},
      {0, Event::sent},
      {8'000, Event::backed_off},
      {8'000, Event::look, 0, "", 24'000},
      {24'000, Event::backed_off},
      {24'000, Event::look, 0, "", 56'000},
      {56'000, Event::backed_off},
      {120'000, Event::backed_off},
      {248'000, Event::backed_off},
      {248'000, Event::look, 0, "", 498'000},
      {498'000, Event::backed_off},
      {498'000, Event::look, 0, "", 748'000},
      {500'000, Event::acknowledged, 2},
      {500'000, Event::change},
      {500'000, Event::sent},
      {500'000, Event::look, 0, "", 508'000},
  });
}

TEST_F(StateExchangeTest, TheRetransmissionTimerLastsTwoRoundTripsAndTheSpacing) {
  struct Row {
    TimeNs round_trip_ms;
    TimeNs spacing_ms;
    TimeNs timer_ms;
  };
  for (const Row& row : {Row{1, 0, 8}, {4, 0, 8}, {5, 0, 10}, {1, 60, 60}, {40, 60, 80}}) {
    StateExchange state;
    state.on_sent(1, row.round_trip_ms * kMillisecond, row.spacing_ms * kMillisecond, kStart);
    EXPECT_EQ(state.next_timeout(), kStart + row.timer_ms * kMillisecond) << row.timer_ms;
  }
}

TEST_F(StateExchangeTest, HurryMovesARunningTimerOnly) {
  play(kIdle);
  play({{0, Event::hurry}});
  EXPECT_EQ(state_.next_timeout(), kNever);
  play({
      {0, Event::change},
      {0, Event::sent},
      {3'000, Event::hurry},
      {3'000, Event::look, 0, "r"},
  });
}

TEST_F(StateExchangeTest, TheRestOfAFullFrameFollowsWhenThePeerHasTheFirstPart) {
  play(kIdle);
  play({
      {0, Event::change},  // 2
      {0, Event::change},  // 3
      {0, Event::sent_to, 2},
      {1'000, Event::look, 0, ""},
      {2'000, Event::acknowledged, 2},
      {2'000, Event::look, 0, "c"},
      {2'000, Event::sent},
      {2'000, Event::look, 0, "", 10'000},
  });
}

TEST_F(StateExchangeTest, AnAcknowledgementOfThePastOrTheFutureSaysNothing) {
  play(kIdle);
  play({
      {0, Event::change},
      {0, Event::sent},
      {1'000, Event::acknowledged, 1},
      {1'000, Event::acknowledged, 3},
      {8'000, Event::look, 0, "r"},
  });
  EXPECT_EQ(state_.acknowledged(), 1U);
}

TEST_F(StateExchangeTest, ThePeersStateIsAcknowledgedWithin2Ms) {
  play(kIdle);
  play({
      {0, Event::peer_state, 5},
      {1'000, Event::peer_state, 6},
      {1'999, Event::look, 0, "", 2'000},
      {2'000, Event::look, 0, "a"},
  });
  EXPECT_FALSE(state_.peer_informed());
  play({{2'000, Event::sent}, {2'000, Event::peer_state, 6}, {9'000, Event::look, 0, ""}});
  EXPECT_TRUE(state_.peer_informed());
  EXPECT_EQ(state_.peer_version(), 6U);
}

TEST_F(StateExchangeTest, APostponedFrameIsDueAgainAfter2Ms) {
  play(kIdle);
  play({
      {0, Event::peer_state, 5},
      {0, Event::change},
      {2'000, Event::look, 0, "a", 2'000},
      {2'500, Event::postpone},
      {2'500, Event::look, 0, "", 4'500},
      {4'500, Event::look, 0, "ca"},
  });
}

TEST_F(StateExchangeTest, MuchPayloadIsWorthAFrame) {
  play(kIdle);
  play({{0, Event::payload}, {0, Event::payload}});
  EXPECT_FALSE(state_.much_unreported());
  play({{0, Event::payload}});
  EXPECT_TRUE(state_.much_unreported());
  play({{0, Event::sent}});
  EXPECT_FALSE(state_.much_unreported());
}

TEST_F(StateExchangeTest, MuchRoomIsUnreportedAtTheSameBoundAndApartFromPayload) {
  play(kIdle);
  state_.on_payload(limits::kDelayedAckBytes - 1);
  state_.on_freed(limits::kDelayedAckBytes - 1);
  EXPECT_FALSE(state_.much_unreported());
  state_.on_freed(1);
  EXPECT_TRUE(state_.much_unreported());
  play({{100, Event::sent}});
  EXPECT_FALSE(state_.much_unreported());
}

}  // namespace
}  // namespace r2ccl
