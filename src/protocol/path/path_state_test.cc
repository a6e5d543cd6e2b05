#include "protocol/path/path_state.h"

#include <gtest/gtest.h>

#include <functional>

namespace r2ccl {
namespace {

PathState in_phase(PathPhase phase) {
  PathState state;
  if (phase == PathPhase::down) return state;
  state.connect(Incarnation(1), 10);
  if (phase == PathPhase::validating) return state;
  state.mark_validated(20);
  if (phase == PathPhase::up) return state;
  state.suspect(30);
  return state;
}

constexpr PathPhase kPhases[] = {PathPhase::down, PathPhase::validating, PathPhase::up,
                                 PathPhase::suspect};

struct Step {
  const char* name;
  std::function<void(PathState&)> take;
  std::vector<PathPhase> legal_in;
  PathPhase leads_to;
};

const std::vector<Step>& steps() {
  static const std::vector<Step> all = {
      {"connect",
       [](PathState& s) { s.connect(Incarnation(2), 40); },
       {PathPhase::down},
       PathPhase::validating},
      {"mark_validated",
       [](PathState& s) { s.mark_validated(40); },
       {PathPhase::validating},
       PathPhase::up},
      {"suspect", [](PathState& s) { s.suspect(40); }, {PathPhase::up}, PathPhase::suspect},
      {"clear", [](PathState& s) { s.clear(40); }, {PathPhase::suspect}, PathPhase::up},
      {"fail",
       [](PathState& s) { s.fail(DownCause::silent, 40); },
       {PathPhase::validating, PathPhase::up, PathPhase::suspect},
       PathPhase::down},
  };
  return all;
}

bool legal(const Step& step, PathPhase phase) {
  return std::find(step.legal_in.begin(), step.legal_in.end(), phase) != step.legal_in.end();
}

TEST(PathState, TakesEveryLegalStep) {
  for (const Step& step : steps()) {
    for (const PathPhase phase : kPhases) {
      if (!legal(step, phase)) continue;
      PathState state = in_phase(phase);
      step.take(state);
      EXPECT_EQ(state.phase(), step.leads_to) << step.name;
      EXPECT_EQ(state.since(), 40) << step.name;
    }
  }
}

TEST(PathStateDeathTest, DiesOfEveryOtherStep) {
  for (const Step& step : steps()) {
    for (const PathPhase phase : kPhases) {
      if (legal(step, phase)) continue;
      PathState state = in_phase(phase);
      EXPECT_DEATH(step.take(state), "bug") << step.name << " in " << static_cast<int>(phase);
    }
  }
}

TEST(PathStateDeathTest, AnIncarnationIsUsedOnce) {
  PathState state = in_phase(PathPhase::up);
  state.fail(DownCause::stalled, 50);
  EXPECT_DEATH(state.connect(Incarnation(1), 60), "bug");
  state.connect(Incarnation(2), 60);
  EXPECT_EQ(state.incarnation(), Incarnation(2));
}

TEST(PathState, AcceptsOnlyReportsOfThePresentConnection) {
  for (const PathPhase phase : kPhases) {
    const PathState state = in_phase(phase);
    EXPECT_EQ(state.is_current(Incarnation(1)), phase != PathPhase::down);
    EXPECT_FALSE(state.is_current(Incarnation(2)));
    EXPECT_FALSE(state.is_current(Incarnation()));
  }
  PathState returned = in_phase(PathPhase::up);
  returned.fail(DownCause::silent, 50);
  returned.connect(Incarnation(2), 60);
  EXPECT_FALSE(returned.is_current(Incarnation(1)));
  EXPECT_TRUE(returned.is_current(Incarnation(2)));
}

TEST(PathState, KeepsItsCauseWhileItIsDown) {
  PathState state = in_phase(PathPhase::suspect);
  state.fail(DownCause::carrier_lost, 50);
  EXPECT_EQ(state.cause(), DownCause::carrier_lost);
  EXPECT_EQ(state.incarnation(), Incarnation(1));
  state.connect(Incarnation(2), 60);
  EXPECT_EQ(state.cause(), DownCause::none);
}

TEST(PathState, CarriesNewChunksOnlyWhenItIsUp) {
  for (const PathPhase phase : kPhases) {
    EXPECT_EQ(in_phase(phase).usable(), phase == PathPhase::up);
    EXPECT_EQ(in_phase(phase).connected(), phase != PathPhase::down);
  }
}

}  // namespace
}  // namespace r2ccl
