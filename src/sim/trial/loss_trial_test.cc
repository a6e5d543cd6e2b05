// Runs some of the trials of `r2ccl sim losses`.
#include "sim/trial/loss_trial.h"

#include <gtest/gtest.h>

namespace r2ccl::sim {
namespace {

// A tenth as fast under sanitizers.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kTrials = 4;
#else
constexpr uint64_t kTrials = 24;
#endif

TEST(LossTrial, NamesTheLossyNicAndNoInnocentOne) {
  for (uint64_t seed = 1; seed <= kTrials; ++seed) {
    const LossTrial trial = random_loss_trial(seed);
    const LossOutcome outcome = run(trial);
    ASSERT_TRUE(outcome.connected);
    EXPECT_TRUE(outcome.innocent.empty()) << describe(trial) << ": " << outcome.innocent.front();
    // These networks show less loss too rarely for the time of a test.
    if (trial.lossy.faults.loss_ppm < 20'000 || trial.lossy.faults.lost != NicFaults::Way::both) {
      continue;
    }
    EXPECT_TRUE(outcome.named) << describe(trial);
    EXPECT_EQ(outcome.verdicts.size(), 1U) << describe(trial);
  }
}

// One NIC of host 4 is so slow that no probe of it is answered in time. The other NIC shares a path
// with the lossy NIC, and loses that path.
TEST(LossTrial, NamesNoHostOfWhichOneNicIsSlowAndTheOtherMeetsTheLossyOne) {
  const LossOutcome outcome = run(random_loss_trial(30151));
  EXPECT_TRUE(outcome.named);
  EXPECT_TRUE(outcome.innocent.empty());
}

TEST(LossTrial, TwoHostsCannotTellWhichNicLoses) {
  LossTrial trial;
  trial.hosts = 2;
  trial.lossy = {.host = 1, .nic = 0, .faults = {.loss_ppm = 30'000}};
  const LossOutcome outcome = run(trial);
  EXPECT_FALSE(outcome.named);
  EXPECT_TRUE(outcome.pair_named);
  EXPECT_TRUE(outcome.innocent.empty());
}

}  // namespace
}  // namespace r2ccl::sim
