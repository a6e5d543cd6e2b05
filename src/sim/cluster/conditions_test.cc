// These tests run a job at 10 Mbit/s to 10 Gbit/s, with a round trip of 0.05 to 50 ms, on 2 to 16
// hosts. The machine is quiet, or every rank is preempted now and then. The job must progress, no
// path may go down without a fault, and a fault may cost no more time than the conditions explain.
//
// The bounds scale with the conditions. Their constants are 1.1 to 2 times the values that the
// first measurement gave. So the tests catch a collapse, but they do not prove an optimum
// (docs/tuning.md).
#include "sim/cluster/conditions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <vector>

namespace r2ccl::sim {
namespace {

constexpr TimeNs kMs = kMillisecond;
constexpr TimeNs kShort = 50 * kMicrosecond;
// Below this rate the smallest windows of two senders to one NIC take longer than the loss timeout
// margin.
constexpr uint64_t kSlowMbit = 50;

class ConditionsTest : public testing::TestWithParam<Conditions> {};

std::string name_of(const testing::TestParamInfo<Conditions>& info) {
  std::string name;
  for (const char c : to_string(info.param)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (name.empty() || name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

void expect_whole(const Outcome& o) {
  EXPECT_TRUE(o.finished);
  EXPECT_EQ(o.error, "");
  EXPECT_EQ(o.wrong, 0U);
  EXPECT_GT(o.checked, 0U);
  EXPECT_EQ(o.downs_elsewhere, 0U) << "paths that nothing is wrong with";
}

// Returns the time that an operation takes without a fault: the time of its bytes on the line, plus
// the latency and one chunk for each of its steps.
TimeNs due(const Outcome& o) {
  return o.wire_time + o.latency_time;
}

TEST_P(ConditionsTest, OnAQuietMachineNobodyIsAccusedAndTheJobGetsOn) {
  const Outcome o = measure(GetParam());
  SCOPED_TRACE(to_string(o));
  RecordProperty("outcome", to_string(o));
  expect_whole(o);
  const bool slow = GetParam().mbit < kSlowMbit;
  const auto hosts = static_cast<uint64_t>(GetParam().hosts);
  const uint64_t forgiven = slow ? 2 * hosts : hosts > 8 ? hosts / 2 : 0;
  EXPECT_LE(o.suspicions, forgiven);
  EXPECT_LT(o.hedged_share, slow ? 0.04 : 0.01) << "a cold start hedges a few chunks";
  EXPECT_LT(o.median, due(o) + due(o) / 2);
}

Conditions quiet(uint64_t mbit, TimeNs round_trip, int hosts) {
  Conditions c;
  c.mbit = mbit;
  c.round_trip = round_trip;
  c.hosts = hosts;
  return c;
}

std::vector<Conditions> quiet_ones() {
  std::vector<Conditions> all;
  for (const uint64_t mbit : {10, 100, 250, 1000, 10'000}) {
    for (const TimeNs round_trip : {kShort, kMs, 10 * kMs, 50 * kMs}) {
      all.push_back(quiet(mbit, round_trip, 4));
    }
  }
  all.push_back(quiet(10, kShort, 2));
  all.push_back(quiet(1000, 10 * kMs, 2));
  all.push_back(quiet(10, kShort, 8));
  all.push_back(quiet(100, 10 * kMs, 8));
  all.push_back(quiet(250, kShort, 8));
  all.push_back(quiet(10'000, kMs, 8));
  all.push_back(quiet(10, 10 * kMs, 16));
  all.push_back(quiet(100, kShort, 16));
  all.push_back(quiet(1000, kMs, 16));
  for (Conditions& c : all) c.operations = c.hosts > 4 ? 4 : 8;
  return all;
}

INSTANTIATE_TEST_SUITE_P(Quiet, ConditionsTest, testing::ValuesIn(quiet_ones()), name_of);

class BusyConditionsTest : public testing::TestWithParam<Conditions> {};

TEST_P(BusyConditionsTest, NoPathIsLostAndTheJobGetsOn) {
  const Outcome o = measure(GetParam());
  SCOPED_TRACE(to_string(o));
  RecordProperty("outcome", to_string(o));
  expect_whole(o);
  EXPECT_LT(o.hedged_share, 0.04);
  // Half of the time may be lost to preemption, plus three preemptions of at most 8 ms.
  EXPECT_LT(o.median, 2 * due(o) + 24 * kMs);
}

std::vector<Conditions> busy_ones() {
  std::vector<Conditions> all = {
      quiet(10, kShort, 4),     quiet(100, kMs, 4),     quiet(250, kShort, 4),
      quiet(250, 50 * kMs, 4),  quiet(1000, kShort, 4), quiet(1000, 10 * kMs, 4),
      quiet(10'000, kShort, 4), quiet(250, kShort, 8),  quiet(1000, kMs, 16),
  };
  for (Conditions& c : all) {
    c.busy = true;
    c.operations = c.hosts > 8 ? 4 : 12;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Busy, BusyConditionsTest, testing::ValuesIn(busy_ones()), name_of);

class TroubledConditionsTest : public testing::TestWithParam<Conditions> {};

TEST_P(TroubledConditionsTest, ANicIsLostWithinItsBoundAndNoOtherPath) {
  const Conditions& c = GetParam();
  const Outcome o = measure(c);
  SCOPED_TRACE(to_string(o));
  RecordProperty("outcome", to_string(o));
  expect_whole(o);
  EXPECT_EQ(o.downs, o.downs_wanted) << "both ends of each path of the NIC";
  const TimeNs stall = o.hit - std::max(o.median, o.median_after);
  if (c.trouble == Trouble::pull) {
    EXPECT_LT(stall, 20 * kMs + c.round_trip + 8 * o.chunk_time);
    EXPECT_LT(o.last_down, 10 * kMs + c.round_trip);
    return;
  }
  // A round trip more than most need: 184 ms with a round trip of 10 ms at 10 Gbit/s.
  EXPECT_LT(stall, 100 * kMs + 9 * c.round_trip + 16 * o.chunk_time);
  EXPECT_LT(o.first_down, 200 * kMs + 5 * c.round_trip);
  EXPECT_LT(o.last_down, 650 * kMs + 4 * c.round_trip);
}

std::vector<Conditions> troubled_ones() {
  std::vector<Conditions> all;
  const auto add = [&](Conditions c, std::initializer_list<Trouble> troubles) {
    for (const Trouble trouble : troubles) {
      c.trouble = trouble;
      c.operations = c.mbit < 10'000 ? 6 : 60;
      if (c.bytes == 0) c.bytes = 256 * 1024;
      all.push_back(c);
    }
  };
  using enum Trouble;
  for (const uint64_t mbit : {10, 250, 10'000}) {
    for (const TimeNs round_trip : {kShort, 10 * kMs}) {
      Conditions c = quiet(mbit, round_trip, 4);
      if (mbit == 10'000) c.bytes = 128 * 1024;
      if (mbit == 10'000 && round_trip == kShort) {
        add(c, {pull, hole});
      } else {
        add(c, {pull, hole, hole_tx, hole_rx});
      }
    }
  }
  add(quiet(100, kMs, 4), {pull, hole, hole_tx, hole_rx});
  add(quiet(1000, 50 * kMs, 4), {pull, hole, hole_tx, hole_rx});
  add(quiet(10, 50 * kMs, 4), {hole, hole_rx});
  add(quiet(250, kMs, 2), {pull, hole_tx});
  add(quiet(1000, kShort, 8), {hole, hole_rx});
  add(quiet(250, kMs, 16), {hole});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Troubled, TroubledConditionsTest, testing::ValuesIn(troubled_ones()),
                         name_of);

}  // namespace
}  // namespace r2ccl::sim
