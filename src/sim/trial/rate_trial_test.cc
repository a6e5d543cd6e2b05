// A sample of the networks of `r2ccl sim rates`, which runs all.
#include "sim/trial/rate_trial.h"

#include <gtest/gtest.h>

namespace r2ccl::sim {
namespace {

TEST(RateTrial, AnAllReduceTakesHardlyLongerThanItsBytesOnTheLine) {
  const RateTrial trials[] = {
      {.hosts = 2, .nics = 1, .mbit = 250, .latency = 50 * kMicrosecond},
      {.hosts = 4, .nics = 3, .mbit = 1'000, .latency = 5 * kMicrosecond},
      {.hosts = 4, .nics = 4, .mbit = 10'000, .latency = 50 * kMicrosecond},
      {.hosts = 2, .nics = 1, .mbit = 100'000, .latency = 50 * kMicrosecond},
  };
  for (const RateTrial& trial : trials) {
    const RateOutcome outcome = run(trial);
    EXPECT_EQ(outcome.error, "") << describe(trial);
    EXPECT_LE(outcome.median(), 1.05) << describe(trial);
    EXPECT_LE(outcome.ratios.at(2), 1.25) << describe(trial) << ", the third operation";
  }
}

}  // namespace
}  // namespace r2ccl::sim
