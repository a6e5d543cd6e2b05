#include "sim/training/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/training/failures.h"

namespace r2ccl::sim {
namespace {

TrainingJob small_job() {
  TrainingJob job;
  job.model = model_named("7b").value();
  job.bucket_bytes = uint64_t{1} << 30;
  return job;
}

Iteration iteration_of(const TrainingJob& job, const LiveNics& live, PlanFor plan_for) {
  return TrainingTimes(job).iteration(live, plan_for).value();
}

// A fixed plan of two hosts halves and doubles, or is a ring: 2 (p - 1) / p of the bytes.
TEST(Training, AnIterationHasItsClosedForm) {
  TrainingJob job = small_job();
  job.cluster.latency_s = job.cluster.intra_latency_s = 0;
  const double tokens = job.sequence;
  const double forward = 2 * (6.7e9 + 32.0 * 4096 * tokens) * tokens / (989e12 * 0.4);
  const double network = 1.5 * 2 * 6.7e9 / (8 * 50e9);
  const double within = 2 * 7.0 / 8 * 2 * 6.7e9 / 450e9;
  job.overlap = false;
  const Iteration bare = iteration_of(job, {8, 8, 8, 8}, PlanFor::view);
  EXPECT_NEAR(bare.compute_s, 4 * 3 * forward, 1e-9);
  EXPECT_EQ(bare.tensor_s, 0);
  EXPECT_EQ(bare.pipeline_s, 0);
  // The simulator's pipeline also fills.
  EXPECT_NEAR(bare.exposed_s, network + within, 0.01 * network);
  EXPECT_NEAR(bare.exposed_s, bare.gradients_s, 1e-12);
  // The backward pass is long enough to hide all buckets but the last one.
  job.overlap = true;
  const Iteration hidden = iteration_of(job, {8, 8, 8, 8}, PlanFor::view);
  EXPECT_NEAR(hidden.exposed_s, hidden.gradients_s / 13, 1e-9);
  EXPECT_NEAR(hidden.total_s, hidden.compute_s + hidden.exposed_s, 1e-12);
}

TEST(Training, WithoutOtherReplicasAnIterationIsComputation) {
  TrainingJob job = small_job();
  job.model = model_named("70b").value();
  job.model.pipeline = 1;
  job.cluster.hosts = 1;
  job.cluster.intra_latency_s = 0;
  const Iteration alone = iteration_of(job, {8}, PlanFor::view);
  EXPECT_EQ(alone.total_s, alone.compute_s + alone.tensor_s);
  EXPECT_NEAR(alone.tensor_s, 4 * 80 * 6 * 2 * 7.0 / 8 * 2 * 4096 * 8192 / 450e9, 1e-9);
}

TEST(Training, APipelineWaitsForItsHops) {
  TrainingJob job = small_job();
  job.model = model_named("175b").value();
  job.model.pipeline = 4;
  job.cluster.latency_s = 0;
  const double hop = 2.0 * 4096 * 12288 / (8 * 50e9);
  const Iteration whole = iteration_of(job, {8, 8, 8, 8}, PlanFor::view);
  EXPECT_NEAR(whole.pipeline_s, 6 * hop, 1e-12);
  EXPECT_EQ(whole.gradients_s, 0);
  const Iteration hurt = iteration_of(job, {8, 4, 8, 8}, PlanFor::view);
  EXPECT_NEAR(hurt.pipeline_s, (2 + 2 * 4) * hop, 1e-12);
  // A send that takes longer than a slot holds up every micro-batch.
  job.cluster.gpu_flops *= 1e6;
  job.cluster.intra_rate *= 1e6;
  job.cluster.intra_latency_s = 0;
  EXPECT_NEAR(iteration_of(job, {8, 8, 8, 8}, PlanFor::view).pipeline_s, (6 + 4 * 2) * hop,
              0.01 * hop);
}

TEST(Training, ALaterStageHidesMore) {
  TrainingJob job = small_job();
  job.model = model_named("70b").value();
  job.overlap = false;
  // Hosts 1 and 3 are the later stage, which has ended its backward pass before.
  const double first = iteration_of(job, {4, 8, 8, 8}, PlanFor::healthy).exposed_s;
  const double later = iteration_of(job, {8, 4, 8, 8}, PlanFor::healthy).exposed_s;
  EXPECT_GT(first, later);
}

TEST(Training, MoreLossTakesLonger) {
  TrainingJob job = small_job();
  job.overlap = false;
  TrainingTimes times(job);
  for (const PlanFor plan_for : {PlanFor::view, PlanFor::healthy}) {
    double before = 0;
    for (uint32_t live = 8; live >= 1; --live) {
      const double now = times.iteration({8, live, 8, 8}, plan_for).value().total_s;
      EXPECT_GT(now, before) << live;
      before = now;
    }
    EXPECT_TRUE(std::isinf(times.iteration({8, 0, 8, 8}, plan_for).value().total_s));
  }
  const double view = times.iteration({8, 4, 8, 8}, PlanFor::view).value().exposed_s;
  EXPECT_LT(view, 0.9 * times.iteration({8, 4, 8, 8}, PlanFor::healthy).value().exposed_s);
}

TEST(Training, ASizeAndASetOfLossesAreSimulatedOnce) {
  TrainingTimes times(small_job());
  ASSERT_TRUE(times.iteration({8, 7, 8, 8}, PlanFor::view).ok());
  ASSERT_TRUE(times.iteration({8, 8, 8, 7}, PlanFor::view).ok());
  EXPECT_EQ(times.simulated(), 1U);
  ASSERT_TRUE(times.iteration({8, 8, 7, 7}, PlanFor::view).ok());
  EXPECT_EQ(times.simulated(), 2U);
}

TEST(Training, OnlyASmallGroupHasPlansForViews) {
  for (const size_t hosts : {kViewHostsMax, kViewHostsMax + 1}) {
    GpuCluster cluster;
    cluster.hosts = static_cast<uint32_t>(hosts);
    CollectiveTimes times(cluster);
    LiveNics live(hosts, 8);
    live[0] = 4;
    const double view = times.all_reduce(uint64_t{256} << 20, live, PlanFor::view).value();
    const double healthy = times.all_reduce(uint64_t{256} << 20, live, PlanFor::healthy).value();
    EXPECT_EQ(view == healthy, hosts > kViewHostsMax);
  }
}

TEST(Training, AWrongJobIsNamed) {
  struct Wrong {
    void (*set)(TrainingJob&);
    const char* message;
  };
  const Wrong kWrong[] = {
      {[](TrainingJob& j) { j.cluster.hosts = 0; }, "a job has 1 to 4096 hosts"},
      {[](TrainingJob& j) { j.cluster.nics = 65; }, "a host has 1 to 64 NICs"},
      {[](TrainingJob& j) { j.cluster.gpus = 0; }, "a host has at least one GPU"},
      {[](TrainingJob& j) { j.cluster.nic_rate = 0; }, "a rate is positive"},
      {[](TrainingJob& j) { j.cluster.latency_s = -1; }, "a latency must be 0 or more seconds"},
      {[](TrainingJob& j) { j.cluster.gpu_flops = std::nan(""); }, "a GPU computes at a positive"},
      {[](TrainingJob& j) { j.cluster.efficiency = 1.5; }, "the efficiency is above 0"},
      {[](TrainingJob& j) { j.model.layers = 0; }, "a model has parameters, layers"},
      {[](TrainingJob& j) { j.model.tensor = 3; }, "groups of 3 GPUs do not fill a host of 8"},
      {[](TrainingJob& j) { j.model.pipeline = 3; }, "pipelines of 3 hosts do not fill 4 hosts"},
      {[](TrainingJob& j) { j.sequence = 0; }, "a micro-batch has at least one token"},
      {[](TrainingJob& j) { j.micro_batches = 0; }, "an iteration has at least one"},
      {[](TrainingJob& j) { j.bucket_bytes = 0; }, "a bucket has at least one byte"}};
  EXPECT_TRUE(check_job(small_job()).ok());
  for (const Wrong& wrong : kWrong) {
    TrainingJob job = small_job();
    wrong.set(job);
    EXPECT_TRUE(check_job(job).message().starts_with(wrong.message)) << check_job(job).message();
  }
  EXPECT_EQ(model_named("8b").status().message(), "no model '8b'; there are 7b, 13b, 70b and 175b");
}

TEST(Failures, NoFailureCostsNothing) {
  TrainingTimes times(small_job());
  const FailureTrace trace = fixed_failures(times.job().cluster, 0, 3600, 1);
  for (const Strategy strategy : kStrategies) {
    const TraceOutcome outcome = run_trace(times, trace, strategy, {}).value();
    EXPECT_EQ(outcome.overhead_pct, 0);
    EXPECT_EQ(outcome.goodput, 1);
  }
}

TEST(Failures, EachStrategyPaysItsOwnPrice) {
  TrainingTimes times(small_job());
  const FailureTrace trace{10000, {{0, 1, true}, {0, 2, true}}};
  const double healthy = times.iteration(times.healthy(), PlanFor::healthy).value().total_s;
  const auto speed = [&](PlanFor plan_for) {
    return healthy / times.iteration({8, 7, 7, 8}, plan_for).value().total_s;
  };
  const auto goodput = [&](Strategy strategy) {
    return run_trace(times, trace, strategy, {}).value().goodput;
  };
  EXPECT_NEAR(goodput(Strategy::r2ccl), (1 - 0.06 / 10000) * speed(PlanFor::view), 1e-12);
  EXPECT_NEAR(goodput(Strategy::balanced), (1 - 0.06 / 10000) * speed(PlanFor::healthy), 1e-12);
  EXPECT_NEAR(goodput(Strategy::restart), 1 - 2 * 1200.0 / 10000, 1e-12);
  EXPECT_NEAR(goodput(Strategy::drop), (1 - 20.0 / 10000) / 2, 1e-12);
}

TEST(Failures, ARepairEndsTheLoss) {
  TrainingTimes times(small_job());
  const FailureTrace trace{1000, {{100, 0, true}, {300, 0, false}}};
  // A replica is gone from 110 to 300 s, and both rebuilds take 10 s.
  const TraceOutcome outcome = run_trace(times, trace, Strategy::drop, {}).value();
  EXPECT_NEAR(outcome.goodput, (100 + 190 * 0.75 + 690) / 1000, 1e-12);
  EXPECT_NEAR(outcome.overhead_pct, (1 / outcome.goodput - 1) * 100, 1e-9);
}

TEST(Failures, AHostWithoutNicsStopsTheJob) {
  TrainingTimes times(small_job());
  const FailureTrace trace = fixed_failures(times.job().cluster, 32, 1000, 1);
  const TraceOutcome outcome = run_trace(times, trace, Strategy::r2ccl, {}).value();
  EXPECT_EQ(outcome.goodput, 0);
  EXPECT_TRUE(std::isinf(outcome.overhead_pct));
}

TEST(Failures, ASeedIsATrace) {
  const GpuCluster cluster;
  const auto hosts_of = [](const FailureTrace& trace) {
    std::vector<uint32_t> hosts;
    for (const NicEvent& event : trace.events) hosts.push_back(event.host);
    return hosts;
  };
  const FailureTrace first = random_failures(cluster, 1e5, 100, 1e6, 7);
  const FailureTrace again = random_failures(cluster, 1e5, 100, 1e6, 7);
  EXPECT_EQ(hosts_of(first), hosts_of(again));
  EXPECT_NE(hosts_of(first), hosts_of(random_failures(cluster, 1e5, 100, 1e6, 8)));
  EXPECT_EQ(hosts_of(fixed_failures(cluster, 5, 1, 7)), hosts_of(fixed_failures(cluster, 5, 1, 7)));
  EXPECT_NE(hosts_of(fixed_failures(cluster, 9, 1, 7)), hosts_of(fixed_failures(cluster, 9, 1, 8)));
  // 32 NICs, 10 failures each: 320 in the mean.
  double failures = 0;
  for (const NicEvent& event : first.events) failures += event.fails;
  EXPECT_NEAR(failures, 320, 60);
  std::vector<int> lost(cluster.hosts);
  for (const uint32_t host : hosts_of(fixed_failures(cluster, 32, 1, 3))) ++lost[host];
  EXPECT_EQ(lost, (std::vector<int>{8, 8, 8, 8}));  // each NIC once
}

}  // namespace
}  // namespace r2ccl::sim
