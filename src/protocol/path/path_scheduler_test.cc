#include "protocol/path/path_scheduler.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "testing/fake_path.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 1000 * kSecond;
// A new path has a delay of 1 ms and sends 30 bytes in a microsecond: 1 ms each.
constexpr uint32_t kChunk = 30'000;

class SchedulerTest : public testing::Test {
 protected:
  void SetUp() override { make({false, false}); }

  void make(const std::vector<bool>& control_only) {
    paths_.clear();
    std::vector<PathEnd*> ends;
    for (size_t i = 0; i < control_only.size(); ++i) {
      paths_.push_back(std::make_unique<FakePath>(i, control_only[i]));
      paths_.back()->bring_up(kStart - kSecond);
      paths_.back()->health.last_round_trip = kMillisecond;
      ends.push_back(paths_.back().get());
    }
    scheduler_ = std::make_unique<PathScheduler>(ends);
  }

  FakePath& path(size_t i) { return *paths_[i]; }

  // "0": path 0 takes the chunk now; "await 0": the chunk waits for it; "none".
  std::string choose(uint64_t fresh_bytes = 0, const PathEnd* avoid = nullptr,
                     std::span<const PathEnd* const> reserved = {}) {
    const PathScheduler::Choice choice =
        scheduler_->choose({kChunk, fresh_bytes, avoid, reserved}, kStart);
    if (choice.path != nullptr) return std::to_string(choice.path->index);
    return choice.awaited == nullptr ? "none" : "await " + std::to_string(choice.awaited->index);
  }

  std::string choose_control() {
    const PathEnd* stream = scheduler_->choose_control(kStart);
    scheduler_->check_invariants();
    return stream == nullptr ? "none" : std::to_string(stream->index);
  }

  std::vector<std::unique_ptr<FakePath>> paths_;
  std::unique_ptr<PathScheduler> scheduler_;
};

TEST_F(SchedulerTest, AChunkGoesHomeWhereNoOtherPathIsFasterBeyondTheError) {
  struct Row {
    const char* what;
    std::function<void(FakePath&)> change;  // of path 1, where the chunk is at home
    const char* chosen;
  };
  const Row rows[] = {
      {"as fast as the other one", [](FakePath&) {}, "1"},
      {"within the error", [](FakePath& p) { p.send(kChunk / 3, kStart); }, "1"},
      {"behind by a chunk", [](FakePath& p) { p.send(kChunk, kStart); }, "0"},
      {"full", [](FakePath& p) { p.can_start = false; }, "0"},
      {"suspect", [](FakePath& p) { p.state.suspect(kStart); }, "0"},
      {"gone", [](FakePath& p) { p.state.fail(DownCause::silent, kStart); }, "0"},
  };
  for (const Row& row : rows) {
    make({false, false});
    row.change(path(1));
    const PathScheduler::Demand demand{kChunk, kChunk, nullptr, {}, &path(1).queue()};
    const PathEnd* const chosen = scheduler_->choose(demand, kStart).path;
    ASSERT_NE(chosen, nullptr) << row.what;
    EXPECT_EQ(std::to_string(chosen->index), row.chosen) << row.what;
  }
}

// The size holds for the whole message.
TEST_F(SchedulerTest, CutsNothingWhileNoPathCarries) {
  constexpr uint64_t kMessage = 1024 * 1024;
  EXPECT_GT(scheduler_->chunk_bytes(kMessage, 1, kStart), 0u);
  for (const size_t i : {0, 1}) path(i).lose(DownCause::silent, kStart);
  EXPECT_EQ(scheduler_->chunk_bytes(kMessage, 1, kStart), 0u);
}

TEST_F(SchedulerTest, GivesAChunkToThePathThatFinishesItFirst) {
  struct Row {
    uint32_t outstanding_0;
    uint32_t outstanding_1;
    const char* chosen;
  };
  for (const Row& row : {Row{0, 0, "0"},
                         {kChunk, 0, "1"},
                         {0, kChunk, "0"},
                         {2 * kChunk, kChunk, "1"},
                         {kChunk, 2 * kChunk, "0"}}) {
    make({false, false});
    if (row.outstanding_0 > 0) path(0).send(row.outstanding_0, kStart);
    if (row.outstanding_1 > 0) path(1).send(row.outstanding_1, kStart);
    EXPECT_EQ(choose(), row.chosen) << row.outstanding_0 << " " << row.outstanding_1;
  }
}

TEST_F(SchedulerTest, GivesNoChunkToAPathThatIsOutOfService) {
  struct Row {
    const char* what;
    std::function<void(FakePath&)> change;
    const char* chosen;
  };
  const Row rows[] = {
      {"suspect", [](FakePath& p) { p.state.suspect(kStart); }, "1"},
      {"down", [](FakePath& p) { p.state.fail(DownCause::silent, kStart); }, "1"},
      {"standby", [](FakePath& p) { p.drained = p.standby = true; }, "1"},
      {"broken", [](FakePath& p) { p.broken = DownCause::connection_lost; }, "1"},
      {"drained", [](FakePath& p) { p.drained = true; }, "0"},
  };
  for (const Row& row : rows) {
    make({false, false});
    row.change(path(0));
    EXPECT_EQ(choose(), row.chosen) << row.what;
  }
  make({true, false});
  EXPECT_EQ(choose(), "1") << "the out-of-band path carries no chunks";
  make({true});
  EXPECT_EQ(choose(), "none");
}

TEST_F(SchedulerTest, AHedgeAvoidsItsPath) {
  EXPECT_EQ(choose(0, &path(0)), "1");
  path(1).state.suspect(kStart);
  EXPECT_EQ(choose(0, &path(0)), "none");
}

TEST_F(SchedulerTest, AChunkWaitsForABusyPathThatIsSooner) {
  path(0).can_start = false;
  path(1).send(3 * kChunk, kStart);
  EXPECT_EQ(choose(), "await 0") << "done after 2 ms there, after 5 ms on path 1";
  EXPECT_EQ(choose(200'000), "1") << "the paths share 290 kB until 5.8 ms";
}

TEST_F(SchedulerTest, AReservedPathCountsAsBusy) {
  const PathEnd* const reserved[] = {&path(0)};
  path(1).send(3 * kChunk, kStart);
  EXPECT_EQ(choose(0, nullptr, reserved), "await 0");
}

TEST_F(SchedulerTest, APathThatThePeerSuspectsGetsAChunkOnlyIfThereIsNoOther) {
  path(0).peer_suspects = true;
  EXPECT_EQ(choose(), "1");
  EXPECT_EQ(choose(0, &path(1)), "0") << "the other is to be avoided";
  path(1).peer_suspects = true;
  EXPECT_EQ(choose(), "0");
}

TEST_F(SchedulerTest, WhereChunksHaveAPriceEquallyGoodPathsTakeThemInTurn) {
  make({false, false, false});
  EXPECT_EQ(choose(), "0");
  EXPECT_EQ(choose(), "0");
  scheduler_->set_chunk_price(kMicrosecond);
  for (const char* expected : {"0", "1", "2", "0"}) EXPECT_EQ(choose(), expected);
}

TEST_F(SchedulerTest, AMessageIsCutForAsManyPathsAsPay) {
  struct Row {
    TimeNs price_us;
    size_t messages;
    uint32_t chunk;
  };
  // 24 kB take 0.8 ms at 30 MB/s: 0.8 ms / price chunks, and at most one for each path.
  constexpr uint64_t kMessage = 24'000;
  for (const Row& row : {Row{0, 1, 6'016},
                         {200, 1, 6'016},
                         {266, 1, 8'000},
                         {400, 1, 12'032},
                         {100, 4, 12'032},
                         {800, 1, 24'000},
                         {9000, 1, 24'000},
                         {800, 9, 24'000}}) {
    make({false, false, false, false});
    scheduler_->set_chunk_price(row.price_us * kMicrosecond);
    EXPECT_EQ(scheduler_->chunk_bytes(kMessage, row.messages, kStart), row.chunk)
        << row.price_us << " " << row.messages;
  }
}

TEST_F(SchedulerTest, AFasterPathMakesFewerChunksPay) {
  scheduler_->set_chunk_price(500 * kMicrosecond);
  EXPECT_EQ(scheduler_->chunk_bytes(30'000, 1, kStart), 15'040u) << "1 ms at 30 MB/s";
  for (int i = 0; i < 8; ++i) {
    path(0).send(kChunk, kStart + i * kMillisecond);
    path(0).deliver(kStart + i * kMillisecond + 150 * kMicrosecond);
  }
  EXPECT_EQ(scheduler_->chunk_bytes(30'000, 1, kStart), 30'016u) << "0.15 ms at 200 MB/s";
}

// The kernel does not count waits for a core. One path's rate may be that of a burst, or a NIC's
// that is slow.
TEST_F(SchedulerTest, TheMedianRateThatKernelsCountSaysHowManyChunksPay) {
  make({false, false, false});
  scheduler_->set_chunk_price(500 * kMicrosecond);
  path(0).busy_rate.sample(15'000'000, 50 * kMillisecond);
  EXPECT_EQ(scheduler_->chunk_bytes(30'000, 1, kStart), 15'040u) << "the others' 30 MB/s";
  path(1).busy_rate.sample(5'000'000, 50 * kMillisecond);
  EXPECT_EQ(scheduler_->chunk_bytes(30'000, 1, kStart), 30'016u) << "0.3 ms at 100 MB/s";
  path(2).busy_rate.sample(500'000, 50 * kMillisecond);
  EXPECT_EQ(scheduler_->chunk_bytes(30'000, 1, kStart), 30'016u) << "one is slow";
}

// The slower one of two connections counts.
TEST_F(SchedulerTest, OfTwoRatesTheLowerSaysHowManyChunksPay) {
  make({false, false});
  scheduler_->set_chunk_price(500 * kMicrosecond);
  path(0).busy_rate.sample(5'000'000, 50 * kMillisecond);
  path(1).busy_rate.sample(1'500'000, 50 * kMillisecond);
  EXPECT_EQ(scheduler_->chunk_bytes(30'000, 1, kStart), 15'040u) << "1 ms at 30 MB/s";
}

// Small chunks show a low rate while they are busy: one chunk must be able to show more.
TEST_F(SchedulerTest, ABurstSaysHowManyChunksOfASmallMessagePay) {
  make({false, false});
  scheduler_->set_chunk_price(200 * kMicrosecond);
  for (const size_t i : {0, 1}) path(i).busy_rate.sample(1'500'000, 50 * kMillisecond);
  EXPECT_EQ(scheduler_->chunk_bytes(16'000, 1, kStart), 8'000u) << "0.5 ms at 30 MB/s";
  for (const size_t i : {0, 1}) path(i).busy_rate.sample(1'500'000, 50 * kMillisecond, 1);
  EXPECT_EQ(scheduler_->chunk_bytes(16'000, 1, kStart), 16'000u) << "16 us at 1 GB/s";
  EXPECT_EQ(scheduler_->chunk_bytes(32'000, 1, kStart), 16'000u) << "may be more than a burst";
}

TEST(BusyRate, CountsFromOneSampleToTheNextWithEnoughBusyTime) {
  BusyRate rate;
  EXPECT_EQ(rate.bytes_per_ns(), 0);
  rate.sample(1'000'000, BusyRate::kPeriod - 1);
  EXPECT_FALSE(rate.known());
  EXPECT_DOUBLE_EQ(rate.bytes_per_ns(), 0.05) << "at least";
  rate.sample(2'000'000, BusyRate::kPeriod);
  EXPECT_TRUE(rate.known());
  EXPECT_DOUBLE_EQ(rate.bytes_per_ns(), 0.1);
  rate.sample(2'500'000, BusyRate::kPeriod + kMillisecond);
  EXPECT_DOUBLE_EQ(rate.bytes_per_ns(), 0.1) << "too soon";
  rate.sample(6'000'000, BusyRate::kPeriod + kMillisecond);
  EXPECT_DOUBLE_EQ(rate.bytes_per_ns(), 0.2) << "the period is not over, and shows more";
  rate.sample(10'000'000, 2 * BusyRate::kPeriod);
  EXPECT_DOUBLE_EQ(rate.bytes_per_ns(), 0.4);
  rate.restart();
  rate.sample(2'000'000, BusyRate::kPeriod);
  EXPECT_DOUBLE_EQ(rate.bytes_per_ns(), 0.1) << "a new connection counts from 0";
}

TEST_F(SchedulerTest, AFullWindowTakesNoChunk) {
  make({false});
  path(0).send(static_cast<uint32_t>(path(0).model.window()) - kChunk, kStart);
  EXPECT_EQ(choose(), "await 0");
}

TEST_F(SchedulerTest, ControlFramesTakeThePromptStreamsInTurn) {
  make({false, false, false, true});
  path(1).health.last_round_trip = 9 * kMillisecond;
  for (const char* expected : {"0", "2", "0", "2"}) EXPECT_EQ(choose_control(), expected);
}

TEST_F(SchedulerTest, AStreamIsPromptWithinTwoRoundTripsAndEightWindows) {
  struct Row {
    TimeNs round_trip_us;
    bool prompt;
  };
  // 2 x 1 ms, 2 ms, and 8 windows of 16 kB at 30 MB/s: 8.37 ms.
  for (const Row& row : {Row{1'000, true}, {8'300, true}, {8'400, false}}) {
    path(1).health.last_round_trip = row.round_trip_us * kMicrosecond;
    EXPECT_EQ(scheduler_->is_prompt(path(1), kStart), row.prompt) << row.round_trip_us;
  }
}

TEST_F(SchedulerTest, AnUnansweredPingMakesAStreamSlow) {
  path(0).health.pings.push_back({1, kStart - 20 * kMillisecond, kStart});
  EXPECT_EQ(choose_control(), "1");
  EXPECT_EQ(choose_control(), "1");
}

TEST_F(SchedulerTest, ControlFramesFallBackToAnyStreamAndAtLastToTheOutOfBandOne) {
  struct Row {
    const char* what;
    std::function<void()> change;
    const char* chosen;
  };
  make({false, false, true});
  const Row rows[] = {
      {"path 0 is full", [this] { path(0).writable = false; }, "1"},
      {"path 1 is suspect", [this] { path(1).state.suspect(kStart); }, "1"},
      {"path 0 is up again", [this] { path(0).writable = true; }, "0"},
      {"path 0 is drained, so no path carries",
       [this] { path(0).drained = path(0).standby = true; }, "2"},
      {"the out-of-band stream is full", [this] { path(2).writable = false; }, "1"},
      {"nothing is left", [this] { path(0).writable = path(1).writable = false; }, "none"},
  };
  for (const Row& row : rows) {
    row.change();
    EXPECT_EQ(choose_control(), row.chosen) << row.what;
  }
}

TEST_F(SchedulerTest, AnUnmeasuredPathTakesOverTheRateOfTheBest) {
  path(0).send(kChunk, kStart);
  path(0).deliver(kStart + 200 * kMicrosecond);
  scheduler_->compare_paths();
  EXPECT_GT(path(0).model.shown_bytes_per_ns(), 0.1);
  EXPECT_DOUBLE_EQ(path(1).model.bytes_per_ns(), path(0).model.shown_bytes_per_ns());
}

class PriorTest : public SchedulerTest {
 protected:
  // Path 0 has a measured rate of 7.5 MB/s at most. Path 1 then delivers eight chunks in these
  // times. Returns the rate that path 1 then counts with.
  double rate_beside_a_slow_path(const std::function<TimeNs(int)>& time_of) {
    path(0).send(kChunk, kStart);
    std::vector<Transmission> delivered;
    EXPECT_TRUE(path(0).model.on_delivered(1, {}, true, kStart + 300 * kMillisecond, delivered));
    EXPECT_TRUE(path(0).model.rate_known());
    for (int i = 0; i < 8; ++i) {
      const TimeNs at = kStart + i * 100 * kMillisecond;
      path(1).send(kChunk, at);
      path(1).deliver(at + time_of(i));
    }
    scheduler_->compare_paths();
    EXPECT_LE(path(0).model.bytes_per_ns(), 0.0075);
    return path(1).model.bytes_per_ns();
  }
};

TEST_F(PriorTest, AFastPathCountsInFullBesideAMeasuredSlowOne) {
  EXPECT_DOUBLE_EQ(rate_beside_a_slow_path([](int) { return 100 * kMicrosecond; }), 0.3);
}

TEST_F(PriorTest, AFewBurstsDoNotCountBesideAMeasuredPath) {
  const auto time_of = [](int i) { return i % 4 == 0 ? 100 * kMicrosecond : kMillisecond; };
  EXPECT_DOUBLE_EQ(rate_beside_a_slow_path(time_of), PathModel::kRateInitial);
}

TEST_F(SchedulerTest, TheRateOfATrainCountsTheBytesOfAllItsSends) {
  path(0).send(kChunk, kStart);
  path(0).send(kChunk, kStart + 10 * kMillisecond);  // begins a train
  std::vector<Transmission> delivered;
  EXPECT_TRUE(path(0).model.on_delivered(1, {}, false, kStart + 10'050 * kMicrosecond, delivered));
  path(0).send(kChunk, kStart + 10'100 * kMicrosecond);
  path(0).deliver(kStart + 10'300 * kMicrosecond);
  EXPECT_DOUBLE_EQ(path(0).model.shown_bytes_per_ns(), 0.2);
}

// With half of the other's rate a path ends half of the message when the other ends all of it.
TEST_F(SchedulerTest, AMessageTakesAsManyPathsAsEndItSoonest) {
  for (const double share : {0.5, 0.75}) {
    make({false, false});
    for (const double rate : {1.0, share}) {
      FakePath& slow = path(rate < 1 ? 1 : 0);
      constexpr TimeNs kTime = 800 * kMillisecond;
      slow.send(static_cast<uint32_t>(PathModel::kRateInitial * kTime * rate), kStart);
      std::vector<Transmission> delivered;
      const FrameArrival arrival{.at = slow.model.outstanding().back().left_at};
      EXPECT_TRUE(slow.model.on_delivered(1, arrival, true, kStart + kTime, delivered));
      EXPECT_NEAR(slow.model.bytes_per_ns(), PathModel::kRateInitial * rate, 1e-6);
    }
    scheduler_->compare_paths();
    const uint32_t chunk = scheduler_->chunk_bytes(16'000, 1, kStart + 801 * kMillisecond);
    EXPECT_EQ(chunk, share > 0.5 ? 8000u : 16'000u);
  }
}

TEST_F(SchedulerTest, TheGapBeforeASendIsNoPartOfItsRate) {
  path(0).send(kChunk, kStart);
  path(0).send(kChunk, kStart + 10 * kMillisecond);
  path(0).deliver(kStart + 10 * kMillisecond + 200 * kMicrosecond);
  EXPECT_DOUBLE_EQ(path(0).model.shown_bytes_per_ns(), 0.15);
}

}  // namespace
}  // namespace r2ccl
