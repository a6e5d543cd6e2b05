#include "sim/training/serving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace r2ccl::sim {
namespace {

ServingJob small_job() {
  ServingJob job;
  job.model = model_named("70b").value();
  job.output = 32;
  job.duration_s = 20;
  job.failure_at_s = 10;
  return job;
}

ServingOutcome outcome_of(const ServingJob& job, ServingStrategy strategy) {
  return ServingTimes(job).run(strategy, {}).value();
}

TEST(Serving, APassHasItsClosedForm) {
  ServingJob job = small_job();
  job.cluster.hosts = 1;
  job.cluster.intra_latency_s = 0;
  ServingTimes times(job);
  const double reduce = 2 * 7.0 / 8 * 2 * 8192 / 450e9;
  // One token reads the weights, and a long prompt computes.
  EXPECT_NEAR(times.pass(1, {8}, PlanFor::view).value(), 2 * 70e9 / 8 / 3.35e12 + 160 * reduce,
              1e-9);
  EXPECT_NEAR(times.pass(2048, {8}, PlanFor::view).value(),
              2 * 70e9 * 2048 / 8 / (989e12 * 0.4) + 160 * 2048 * reduce, 1e-9);
}

TEST(Serving, APassThatWouldTakeMinutesToSimulateIsRefused) {
  const auto error = [](const ServingJob& job, uint32_t replayed, ServingStrategy strategy) {
    return ServingTimes(job).run(strategy, {.replayed_tokens = replayed}).status().message();
  };
  ServingJob job = small_job();
  EXPECT_EQ(
      ServingTimes(job).pass(kPassTokensMax + 1, {8, 8}, PlanFor::view).status().message(),
      "a pass has 1048577 tokens, and at most 1048576 are simulated; take a shorter prompt, a "
      "smaller batch or fewer tokens to replay");
  EXPECT_TRUE(error(job, UINT32_MAX, ServingStrategy::replicate).starts_with("a pass has "));
  job.prompt = UINT32_MAX;
  EXPECT_TRUE(error(job, 8, ServingStrategy::none).starts_with("a pass has 4294967295 tokens"));
}

TEST(Serving, RequestsThatAreAloneTakeTheirPasses) {
  ServingJob job = small_job();
  job.requests_per_s = 0.05;
  job.seed = 2;
  ServingTimes times(job);
  const ServingOutcome outcome = times.run(ServingStrategy::none, {}).value();
  const LiveNics whole = {8, 8};
  const double token = times.pass(1, whole, PlanFor::healthy).value();
  const double first = times.pass(job.prompt, whole, PlanFor::healthy).value();
  ASSERT_EQ(outcome.tokens, 64U);  // two requests, one after the other
  EXPECT_NEAR(outcome.token_p50_s, token, 1e-9);
  EXPECT_NEAR(outcome.token_max_s, token, 1e-9);
  EXPECT_NEAR(outcome.first_p99_s, first, 1e-9);
  EXPECT_NEAR(outcome.mean_token_s, (first + 31 * token) / 32, 1e-9);
}

TEST(Serving, EachStrategyMakesAllTokens) {
  const ServingJob job = small_job();
  const ServingOutcome whole = outcome_of(job, ServingStrategy::none);
  EXPECT_EQ(whole.tokens % job.output, 0U);
  EXPECT_GT(whole.tokens, 0U);
  for (const ServingStrategy strategy : kServingStrategies) {
    const ServingOutcome outcome = outcome_of(job, strategy);
    EXPECT_EQ(outcome.tokens, whole.tokens);
    EXPECT_EQ(outcome.mean_token_s, outcome_of(job, strategy).mean_token_s);
    if (strategy == ServingStrategy::none) continue;
    EXPECT_GT(outcome.mean_token_s, whole.mean_token_s);
  }
  EXPECT_GT(outcome_of(job, ServingStrategy::restart).mean_token_s,
            outcome_of(job, ServingStrategy::replicate).mean_token_s);
}

TEST(Serving, MoreLossTakesLonger) {
  ServingJob job = small_job();
  double before = 0;
  for (job.failed = 0; job.failed < 8; ++job.failed) {
    const double now = outcome_of(job, ServingStrategy::r2ccl).mean_token_s;
    EXPECT_GT(now, before) << job.failed;
    before = now;
  }
}

TEST(Serving, AFailureAfterTheLastRequestChangesNothing) {
  ServingJob job = small_job();
  job.failure_at_s = 1e6;
  EXPECT_EQ(outcome_of(job, ServingStrategy::restart).mean_token_s,
            outcome_of(job, ServingStrategy::none).mean_token_s);
}

TEST(Serving, AWrongJobIsNamed) {
  struct Wrong {
    void (*set)(ServingJob&);
    const char* message;
  };
  const Wrong kWrong[] = {
      {[](ServingJob& j) { j.cluster.hosts = 0; }, "a job has 1 to 4096 hosts"},
      {[](ServingJob& j) { j.model.hidden = 0; }, "a model has parameters, layers"},
      {[](ServingJob& j) { j.prompt = 0; }, "a request has a prompt and an answer"},
      {[](ServingJob& j) { j.batch = 0; }, "a batch has at least one request"},
      {[](ServingJob& j) { j.requests_per_s = 0; }, "requests arrive at a positive rate"},
      {[](ServingJob& j) { j.duration_s = std::nan(""); }, "requests arrive for a positive time"},
      {[](ServingJob& j) { j.requests_per_s = 1e9; }, "more than 100 million tokens"},
      {[](ServingJob& j) { j.failure_at_s = -1; }, "NICs fail after zero or more seconds"},
      {[](ServingJob& j) { j.failed = 8; }, "a host that serves keeps one NIC at least"}};
  EXPECT_TRUE(check_job(small_job()).ok());
  for (const Wrong& wrong : kWrong) {
    ServingJob job = small_job();
    wrong.set(job);
    EXPECT_TRUE(check_job(job).message().starts_with(wrong.message)) << check_job(job).message();
  }
}

}  // namespace
}  // namespace r2ccl::sim
