// The times of plans against closed forms. Rates are 1 GB/s and a segment has 1 MB, so a segment
// takes 1 ms.
#include "sim/fluid/fluid.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace r2ccl::sim {
namespace {

constexpr double kRate = 1e9;
constexpr uint64_t kSegment = 1'000'000;
constexpr double kSegmentS = 1e-3;
constexpr double kExact = 1e-12;

FluidFabric fabric_with(double latency_s) {
  FluidFabric fabric;
  fabric.nic_rate = kRate;
  fabric.latency_s = latency_s;
  return fabric;
}

PlanLimits segments_of_1_mb() {
  PlanLimits limits;
  limits.segment_bytes_min = limits.segment_bytes_max = kSegment;
  return limits;
}

PlanKey call(Collective collective, Algorithm algorithm, int32_t ranks, uint64_t bytes) {
  PlanKey key;
  key.collective = collective;
  key.algorithm = algorithm;
  key.rank_count = ranks;
  key.count = bytes / size_of(key.type);
  return key;
}

double seconds(const PlanKey& key, const FluidFabric& fabric, const FluidOptions& options = {}) {
  const Result<FluidPlan> plan = FluidPlan::of(key, segments_of_1_mb());
  const Result<FluidTime> time = fluid_time(plan.value(), key.hosts, fabric, options);
  EXPECT_TRUE(time.ok()) << time.status().message();
  return time.ok() ? time.value().time_s : -1;
}

#define EXPECT_SECONDS(actual, expected) EXPECT_NEAR(actual, expected, (expected)*1e-9 + kExact)

// The steps of a rank that sends `messages` segments to `peer`.
RankPlan sender(Rank rank, Rank peer, int messages) {
  RankPlan plan{.rank = rank, .steps = {}};
  for (int i = 0; i < messages; ++i) {
    plan.steps.push_back({.kind = StepKind::send, .peer = peer, .source = {.count = kSegment}});
  }
  return plan;
}
RankPlan receiver(Rank rank, Rank peer, int messages, StepKind kind = StepKind::receive) {
  RankPlan plan{.rank = rank, .steps = {}};
  for (int i = 0; i < messages; ++i) {
    plan.steps.push_back(
        {.kind = kind, .peer = peer, .target = {.buffer = Buffer::output, .count = kSegment}});
  }
  return plan;
}

Result<FluidTime> run(const std::vector<RankPlan>& plans, const FluidFabric& fabric,
                      const FluidOptions& options = {}) {
  const Result<FluidPlan> plan =
      FluidPlan::of(static_cast<int32_t>(plans.size()), 1,
                    [&](Rank rank) { return plans[static_cast<size_t>(rank.value())]; });
  R2CCL_RETURN_IF_ERROR(plan.status());
  return fluid_time(plan.value(), {}, fabric, options);
}

// ---- closed forms ------------------------------------------------------------------------------

TEST(FluidTest, ARingTakesTheTimeOfItsBytes) {
  for (const int32_t ranks : {2, 3, 8, 64}) {
    const auto p = static_cast<uint64_t>(ranks);
    const PlanKey key = call(Collective::all_reduce, Algorithm::ring, ranks, p * 4 * kSegment);
    EXPECT_SECONDS(seconds(key, fabric_with(0)),
                   2 * static_cast<double>(ranks - 1) * 4 * kSegmentS);
  }
}

TEST(FluidTest, ARingOfOneSegmentABlockPaysEachHop) {
  const PlanKey key = call(Collective::all_reduce, Algorithm::ring, 8, 8 * kSegment);
  EXPECT_SECONDS(seconds(key, fabric_with(1e-4)), 14 * (kSegmentS + 1e-4));
}

TEST(FluidTest, ARingHidesTheLatencyBehindOtherSegments) {
  const PlanKey key = call(Collective::all_reduce, Algorithm::ring, 8, 8 * 4 * kSegment);
  EXPECT_SECONDS(seconds(key, fabric_with(1e-4)), 14 * 4 * kSegmentS + 1e-4);
}

TEST(FluidTest, ASlowHostSlowsTheWholeRing) {
  for (const uint32_t left : {875U, 750U, 500U, 250U}) {
    PlanKey key = call(Collective::all_reduce, Algorithm::ring, 8, 8 * 4 * kSegment);
    FluidFabric fabric = fabric_with(0);
    fabric.rates.assign(8, HostRates(1));
    fabric.rates[3][0] = {left, left};
    EXPECT_SECONDS(seconds(key, fabric), 14 * 4 * kSegmentS * 1000 / left);
  }
}

TEST(FluidTest, HalvingDoublingHasAHopForEachRound) {
  // The parts are smaller than a segment, so each round is one message.
  PlanKey key = call(Collective::all_reduce, Algorithm::halving_doubling, 16, kSegment);
  // The first result comes back to where the last partial result was sent from, which must be
  // acknowledged.
  EXPECT_SECONDS(seconds(key, fabric_with(5e-5)), 2 * 15.0 / 16 * kSegmentS + 9 * 5e-5);
  // Small ones are copied, so that none waits for this.
  key.count = 64;
  EXPECT_SECONDS(seconds(key, fabric_with(5e-5)), 2 * 15.0 / 16 * 256 / kRate + 8 * 5e-5);
}

TEST(FluidTest, AChainFillsAndThenKeepsItsRate) {
  PlanKey key = call(Collective::broadcast, Algorithm::ring, 9, 20 * kSegment);
  EXPECT_SECONDS(seconds(key, fabric_with(1e-5)), (20 + 7) * kSegmentS + 8 * 1e-5);
}

TEST(FluidTest, AnExchangeIsBoundByEachHostsBlocks) {
  const PlanKey key = call(Collective::all_to_all, Algorithm::automatic, 10, kSegment);
  EXPECT_SECONDS(seconds(key, fabric_with(1e-4)), 9 * kSegmentS + 1e-4);
}

TEST(FluidTest, RanksOfAHostShareItsNics) {
  PlanKey key = call(Collective::all_to_all, Algorithm::automatic, 8, kSegment);
  key.hosts = HostGroups(std::vector<uint32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  FluidFabric fabric = fabric_with(0);
  fabric.intra_rate = 100 * kRate;
  // Four ranks send four blocks each to the other host.
  EXPECT_SECONDS(seconds(key, fabric), 16 * kSegmentS);
}

TEST(FluidTest, APortWithinAHostHasARateAndALatencyOfItsOwn) {
  PlanKey key = call(Collective::broadcast, Algorithm::ring, 2, kSegment);
  key.hosts = HostGroups(std::vector<uint32_t>{0, 0});
  FluidFabric fabric = fabric_with(1);
  fabric.intra_rate = 10 * kRate;
  fabric.intra_latency_s = 1e-5;
  EXPECT_SECONDS(seconds(key, fabric), kSegmentS / 10 + 1e-5);
}

TEST(FluidTest, ABarrierCostsOnlyLatency) {
  const PlanKey key = call(Collective::barrier, Algorithm::automatic, 8, 0);
  EXPECT_SECONDS(seconds(key, fabric_with(1e-4)), 3 * 1e-4);
}

TEST(FluidTest, ARankAloneNeedsNoTime) {
  EXPECT_EQ(
      seconds(call(Collective::all_reduce, Algorithm::automatic, 1, kSegment), fabric_with(0)), 0);
}

// ---- shares ------------------------------------------------------------------------------------

TEST(FluidTest, MessagesToOnePeerGoOneAfterTheOther) {
  const auto time =
      run({sender(Rank(0), Rank(1), 5), receiver(Rank(1), Rank(0), 5)}, fabric_with(1e-4));
  EXPECT_SECONDS(time.value().time_s, 5 * kSegmentS + 1e-4);
  EXPECT_EQ(time.value().messages, 5U);
}

// Two senders fill a receiver. When one of them is done, the other has all of it.
TEST(FluidTest, SendersShareTheirReceiver) {
  RankPlan both = receiver(Rank(2), Rank(0), 1);
  const RankPlan second = receiver(Rank(2), Rank(1), 3);
  both.steps.insert(both.steps.end(), second.steps.begin(), second.steps.end());
  const auto time =
      run({sender(Rank(0), Rank(2), 1), sender(Rank(1), Rank(2), 3), both}, fabric_with(0));
  EXPECT_SECONDS(time.value().time_s, 4 * kSegmentS);
}

// ---- the rules of plans ------------------------------------------------------------------------

TEST(FluidTest, AStagingSlotIsNeededForAMessageToBeReduced) {
  const double latency = 2e-4;
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 6),
                                       receiver(Rank(1), Rank(0), 6, StepKind::receive_reduce)};
  FluidOptions one;
  one.staging = 1;
  EXPECT_SECONDS(run(plans, fabric_with(latency), one).value().time_s, 6 * (kSegmentS + latency));
  FluidOptions two;
  two.staging = 2;
  EXPECT_SECONDS(run(plans, fabric_with(latency), two).value().time_s, 6 * kSegmentS + latency);
}

TEST(FluidTest, SlotsGoOutInTheOrderOfThePlan) {
  // Rank 0 has its message only after five segments from rank 3. Rank 1 has its own at once, and
  // still gets the slot after rank 0.
  RankPlan late = receiver(Rank(0), Rank(3), 5);
  late.steps.push_back(
      {.kind = StepKind::send, .peer = Rank(2), .source = {.count = kSegment}, .after = {4}});
  RankPlan both = receiver(Rank(2), Rank(0), 1, StepKind::receive_reduce);
  both.steps.push_back(receiver(Rank(2), Rank(1), 1, StepKind::receive_reduce).steps[0]);
  const std::vector<RankPlan> plans = {late, sender(Rank(1), Rank(2), 1), both,
                                       sender(Rank(3), Rank(0), 5)};
  FluidOptions one;
  one.staging = 1;
  EXPECT_SECONDS(run(plans, fabric_with(0), one).value().time_s, 7 * kSegmentS);
  EXPECT_SECONDS(run(plans, fabric_with(0)).value().time_s, 6 * kSegmentS);
}

TEST(FluidTest, AWindowEndsWithTheAcknowledgement) {
  const double latency = 2e-4;
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 4), receiver(Rank(1), Rank(0), 4)};
  FluidOptions one;
  one.window = 1;
  EXPECT_SECONDS(run(plans, fabric_with(latency), one).value().time_s,
                 4 * (kSegmentS + latency) + 3 * latency);
}

TEST(FluidTest, AStepWaitsForThoseBeforeIt) {
  // Rank 1 passes on two messages that it has got; the second one also waits for its own first
  // send.
  RankPlan middle = receiver(Rank(1), Rank(0), 2);
  middle.steps.push_back(
      {.kind = StepKind::send, .peer = Rank(2), .source = {.count = kSegment}, .after = {0}});
  middle.steps.push_back(
      {.kind = StepKind::send, .peer = Rank(2), .source = {.count = kSegment}, .after = {1, 2}});
  const double latency = 3e-4;
  const auto time = run({sender(Rank(0), Rank(1), 2), middle, receiver(Rank(2), Rank(1), 2)},
                        fabric_with(latency));
  EXPECT_SECONDS(time.value().time_s, 3 * kSegmentS + 4 * latency);
}

TEST(FluidTest, AMessageTakesItsSendersProcessor) {
  FluidOptions options;
  options.message_s = 2 * kSegmentS;
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 5), receiver(Rank(1), Rank(0), 5)};
  EXPECT_SECONDS(run(plans, fabric_with(0), options).value().time_s, 11 * kSegmentS);
}

// ---- rails -------------------------------------------------------------------------------------

FluidFabric rails_of(FluidFabricKind kind, uint32_t nics) {
  FluidFabric fabric = fabric_with(0);
  fabric.kind = kind;
  fabric.nics = nics;
  return fabric;
}

TEST(FluidTest, OnlyEqualRailsConnect) {
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 4), receiver(Rank(1), Rank(0), 4)};
  FluidFabric fabric = rails_of(FluidFabricKind::rails, 4);
  EXPECT_SECONDS(run(plans, fabric).value().time_s, kSegmentS);
  fabric.rates = {HostRates(4), HostRates(4)};
  fabric.rates[0][0] = {0, 0};
  fabric.rates[1][1] = {0, 0};
  EXPECT_SECONDS(run(plans, fabric).value().time_s, 2 * kSegmentS);
  fabric.kind = FluidFabricKind::flat;
  EXPECT_SECONDS(run(plans, fabric).value().time_s, 4.0 / 3 * kSegmentS);
}

TEST(FluidTest, ASpineConnectsOtherRails) {
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 4), receiver(Rank(1), Rank(0), 4)};
  FluidFabric fabric = rails_of(FluidFabricKind::spine, 4);
  fabric.rates = {HostRates(4), HostRates(4)};
  fabric.rates[0][0] = {0, 0};
  fabric.rates[1][1] = {0, 0};
  EXPECT_SECONDS(run(plans, fabric).value().time_s, 4.0 / 3 * kSegmentS);
  // Rails that both hosts have come first, wherever they are.
  FluidFabric last = rails_of(FluidFabricKind::spine, 4);
  last.rates = {HostRates(4), HostRates(4)};
  last.rates[0][3] = last.rates[1][2] = {0, 0};
  EXPECT_SECONDS(run(plans, last).value().time_s, 4.0 / 3 * kSegmentS);
  // An uplink carries the bandwidth of two hosts, divided by four.
  fabric.oversubscription = 4;
  EXPECT_SECONDS(run(plans, fabric).value().time_s, 4.0 / 2.5 * kSegmentS);
}

TEST(FluidTest, WithoutACommonRailThereIsAnError) {
  FluidFabric fabric = rails_of(FluidFabricKind::rails, 2);
  fabric.rates = {HostRates(2), HostRates(2)};
  fabric.rates[0][0] = {0, 0};
  fabric.rates[1][1] = {0, 0};
  const auto time = run({sender(Rank(0), Rank(1), 1), receiver(Rank(1), Rank(0), 1)}, fabric);
  EXPECT_EQ(time.status().message(),
            "the collective cannot end: no pair of NICs carries a message from rank 0 to rank 1, "
            "of host 0 to host 1");
}

// Where all NICs must be busy all the time to reach the floor of 4/3 of the healthy ring's time.
TEST(FluidTest, ALinkLeavesANarrowRailToThoseThatHaveNoOther) {
  PlanKey key = call(Collective::all_reduce, Algorithm::direct, 4, 1024 * kSegment);
  FluidFabric fabric = rails_of(FluidFabricKind::rails, 8);
  fabric.rates.assign(4, HostRates(8));
  for (size_t nic = 0; nic < 4; ++nic) {
    fabric.rates[0][nic] = fabric.rates[1][nic + 1] = {0, 0};
  }
  key.view = View::of(fabric.rates).value();
  const FluidPlan plan = FluidPlan::of(key, segments_of_1_mb()).value();
  const double healthy = 1024 * 1.5 * kSegmentS / 8;
  EXPECT_NEAR(fluid_time(plan, {}, fabric).value().time_s / healthy, 4.0 / 3, 0.02);
}

// ---- failures ----------------------------------------------------------------------------------

TEST(FluidTest, AfterAFailureTheOtherNicsCarryTheRest) {
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 8), receiver(Rank(1), Rank(0), 8)};
  for (const FluidFabricKind kind : {FluidFabricKind::flat, FluidFabricKind::rails}) {
    const FluidFabric fabric = rails_of(kind, 2);
    FluidOptions options;
    options.changes = {{.at_s = kSegmentS, .host = 1, .nic = 0, .rate = {0, 0}}};
    // Two segments have gone by two NICs, six go by one.
    EXPECT_SECONDS(run(plans, fabric, options).value().time_s, 7 * kSegmentS);
    options.changes.push_back({.at_s = 3 * kSegmentS, .host = 1, .nic = 0, .rate = {1000, 1000}});
    EXPECT_SECONDS(run(plans, fabric, options).value().time_s, 5 * kSegmentS);
  }
}

// Rank 0 sends to two others. One loses a rail, and the other leaves it the rail that it has left.
TEST(FluidTest, AfterAFailureLinksInTheMiddleOfAMessageDivideTheRailsAnew) {
  RankPlan both = sender(Rank(0), Rank(1), 8);
  const RankPlan second = sender(Rank(0), Rank(2), 8);
  both.steps.insert(both.steps.end(), second.steps.begin(), second.steps.end());
  FluidOptions options;
  options.changes = {{.at_s = 0.25 * kSegmentS, .host = 2, .nic = 0, .rate = {0, 0}}};
  const auto time = run({both, receiver(Rank(1), Rank(0), 8), receiver(Rank(2), Rank(0), 8)},
                        rails_of(FluidFabricKind::rails, 2), options);
  // By the old weights it takes 10.7.
  EXPECT_NEAR(time.value().time_s / kSegmentS, 8, 0.3);
}

TEST(FluidTest, AMessageOnAFailedNicWaitsForTheDetection) {
  FluidOptions options;
  options.changes = {{.at_s = 0.25 * kSegmentS, .host = 0, .nic = 1, .rate = {0, 0}}};
  options.detection_s = 10 * kSegmentS;
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 2), receiver(Rank(1), Rank(0), 2)};
  for (const FluidFabricKind kind : {FluidFabricKind::flat, FluidFabricKind::rails}) {
    EXPECT_SECONDS(run(plans, rails_of(kind, 2), options).value().time_s, 10.25 * kSegmentS);
  }
  // A NIC that gets slower loses nothing.
  options.changes[0].rate = {500, 500};
  EXPECT_SECONDS(run(plans, rails_of(FluidFabricKind::rails, 2), options).value().time_s,
                 0.25 * kSegmentS + 1.5 / 1.5 * kSegmentS);
}

TEST(FluidTest, AFailureOfANicThatALinkDoesNotUseDelaysNothing) {
  FluidFabric fabric = rails_of(FluidFabricKind::rails, 2);
  fabric.rates = {HostRates(2), HostRates(2)};
  fabric.rates[1][1] = {0, 0};
  FluidOptions options;
  options.changes = {{.at_s = 0.5 * kSegmentS, .host = 0, .nic = 1, .rate = {0, 0}}};
  options.detection_s = 10 * kSegmentS;
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 2), receiver(Rank(1), Rank(0), 2)};
  EXPECT_SECONDS(run(plans, fabric, options).value().time_s, 2 * kSegmentS);
}

TEST(FluidTest, AFailureElsewhereDelaysNothing) {
  FluidOptions options;
  options.changes = {{.at_s = 0.5 * kSegmentS, .host = 2, .nic = 0, .rate = {0, 0}}};
  options.detection_s = 10 * kSegmentS;
  const auto time = run({sender(Rank(0), Rank(1), 2), receiver(Rank(1), Rank(0), 2),
                         RankPlan{.rank = Rank(2), .steps = {}}},
                        rails_of(FluidFabricKind::rails, 2), options);
  EXPECT_SECONDS(time.value().time_s, kSegmentS);
}

// ---- the whole ---------------------------------------------------------------------------------

FluidFabric ragged_rails(size_t hosts) {
  FluidFabric fabric = rails_of(FluidFabricKind::rails, 4);
  fabric.latency_s = 1e-5;
  fabric.rates.assign(hosts, HostRates(4));
  for (size_t host = 0; host < hosts / 2; ++host) {
    fabric.rates[host][host % 4] = {static_cast<uint32_t>(host * 100), 300};
  }
  return fabric;
}

TEST(FluidTest, BytesAreConserved) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct, Algorithm::nested}) {
    PlanKey key = call(Collective::all_reduce, algorithm, 9, 40 * kSegment + 4);
    const FluidFabric fabric = ragged_rails(9);
    key.view = View::of(fabric.rates).value();
    std::vector<uint64_t> sent;
    std::vector<uint64_t> received(9);
    for (int32_t rank = 0; rank < 9; ++rank) {
      sent.push_back(0);
      for (const Step& step : make_plan(key, Rank(rank), segments_of_1_mb()).steps) {
        if (step.kind != StepKind::send) continue;
        sent.back() += step.source.count * 4;
        received[static_cast<size_t>(step.peer.value())] += step.source.count * 4;
      }
    }
    struct Sums final : FluidRecorder {
      double bytes = 0;
      void carried(uint32_t, uint32_t, double, double, double some) override { bytes += some; }
    } sums;
    const FluidPlan plan = FluidPlan::of(key, segments_of_1_mb()).value();
    const FluidTime time = fluid_time(plan, {}, fabric, {}, &sums).value();
    EXPECT_EQ(time.host_sent, sent);
    EXPECT_EQ(time.host_received, received);
    const auto all = static_cast<double>(std::accumulate(sent.begin(), sent.end(), uint64_t{0}));
    EXPECT_NEAR(sums.bytes, all, all * 1e-9);
    EXPECT_EQ(time.messages, plan.messages());
  }
}

TEST(FluidTest, TheSameRunTakesTheSameTime) {
  PlanKey key = call(Collective::all_reduce, Algorithm::nested, 12, 50 * kSegment);
  const FluidFabric fabric = ragged_rails(12);
  key.view = View::of(fabric.rates).value();
  FluidOptions options;
  options.message_s = 1e-6;
  options.detection_s = 1e-3;
  options.changes = {{.at_s = 5e-3, .host = 7, .nic = 1, .rate = {0, 0}}};
  const FluidPlan plan = FluidPlan::of(key, segments_of_1_mb()).value();
  const FluidTime first = fluid_time(plan, {}, fabric, options).value();
  const FluidTime again = fluid_time(plan, {}, fabric, options).value();
  EXPECT_EQ(first.time_s, again.time_s);
  EXPECT_EQ(first.rank_s, again.rank_s);
}

// ---- bad input ---------------------------------------------------------------------------------

std::string error(const std::vector<RankPlan>& plans, const FluidFabric& fabric = fabric_with(0),
                  const FluidOptions& options = {}) {
  return run(plans, fabric, options).status().message();
}

TEST(FluidTest, APlanWhoseEndsDifferIsAnError) {
  EXPECT_EQ(error({sender(Rank(0), Rank(1), 2), receiver(Rank(1), Rank(0), 1)}),
            "2 sends from rank 0 to rank 1 meet 1 receives");
  EXPECT_EQ(error({RankPlan{}, receiver(Rank(1), Rank(0), 1)}),
            "no send from rank 0 to rank 1 meets a receive");
  RankPlan shorter = receiver(Rank(1), Rank(0), 1);
  shorter.steps[0].target.count = 5;
  EXPECT_EQ(error({sender(Rank(0), Rank(1), 1), shorter}),
            "message 0 from rank 0 to rank 1 has other elements at its two ends");
}

TEST(FluidTest, APlanThatWaitsForItselfIsAnError) {
  RankPlan first = receiver(Rank(0), Rank(1), 1);
  first.steps.push_back(
      {.kind = StepKind::send, .peer = Rank(1), .source = {.count = kSegment}, .after = {0}});
  RankPlan second = receiver(Rank(1), Rank(0), 1);
  second.steps.push_back(
      {.kind = StepKind::send, .peer = Rank(0), .source = {.count = kSegment}, .after = {0}});
  EXPECT_EQ(error({first, second}), "the plan stands still: rank 0 waits in step 0 for ever");
}

TEST(FluidTest, ANetworkThatCannotBeIsAnError) {
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 1), receiver(Rank(1), Rank(0), 1)};
  FluidFabric fabric = fabric_with(0);
  fabric.rates = {HostRates(1)};
  EXPECT_EQ(error(plans, fabric), "the rates name 1 hosts, and there are 2");
  fabric.rates = {HostRates(2), HostRates(1)};
  EXPECT_EQ(error(plans, fabric), "host 0 has rates for 2 NICs, and a host has 1");
  EXPECT_EQ(error(plans, fabric_with(-1)), "a latency must be 0 or more seconds");
  fabric = fabric_with(0);
  fabric.nic_rate = 0;
  EXPECT_EQ(error(plans, fabric),
            "a NIC, and a rank's port within its host, need a rate above zero");
  fabric = fabric_with(0);
  fabric.nics = 0;
  EXPECT_EQ(error(plans, fabric), "a host has 1 to 64 NICs, not 0");
  fabric = fabric_with(0);
  fabric.oversubscription = 0.5;
  EXPECT_EQ(error(plans, fabric), "an oversubscription is a factor of 1 or more");
}

TEST(FluidTest, OptionsThatCannotBeAreAnError) {
  const std::vector<RankPlan> plans = {sender(Rank(0), Rank(1), 1), receiver(Rank(1), Rank(0), 1)};
  FluidOptions options;
  options.staging = 0;
  EXPECT_EQ(error(plans, fabric_with(0), options), "a rank has at least one staging slot");
  options = {};
  options.window = 0;
  EXPECT_EQ(error(plans, fabric_with(0), options), "a window has at least one message");
  options = {};
  options.message_s = -1;
  EXPECT_EQ(error(plans, fabric_with(0), options), "the cost of a message is zero or more seconds");
  options = {};
  options.changes = {{.at_s = 0, .host = 2, .nic = 0, .rate = {}}};
  EXPECT_EQ(error(plans, fabric_with(0), options), "host 2 has no NIC 0 that could fail");
}

}  // namespace
}  // namespace r2ccl::sim
