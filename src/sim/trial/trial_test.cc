// Random runs of the whole engine under every checker, one for each seed. `r2ccl sim fuzz` runs
// more.
#include "sim/trial/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "sim/trial/coverage.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kSeedsInARow = 60;

std::string report(uint64_t seed, const TrialResult& result) {
  std::string all = "seed " + std::to_string(seed) + ", " + describe(scenario_of(seed));
  for (const std::string& violation : result.violations) all += "\n  " + violation;
  return all;
}

class TrialTest : public testing::TestWithParam<uint64_t> {};

// The seeds above the first ones found errors before run_ahead, the faults of people and plans for
// shared hosts existed. Without these they are the same scenarios as then.
Scenario as_recorded(uint64_t seed) {
  Scenario scenario = scenario_of(seed);
  const auto is_run = [](const OperationSpec& operation) {
    return operation.kind == OperationSpec::Kind::run_ahead;
  };
  if (seed > kSeedsInARow) {
    scenario.plan_host_ranks = 1;
    std::erase_if(scenario.operations, is_run);
    std::erase_if(scenario.faults, [](const FaultSpec& fault) { return of_people(fault.kind); });
  }
  return scenario;
}

TEST_P(TrialTest, KeepsEveryRule) {
  const TrialResult result = run_trial(as_recorded(GetParam()));
  EXPECT_TRUE(result.violations.empty()) << report(GetParam(), result);
  EXPECT_GT(result.elements, 0U);
}

// Seeds that found errors with all operations and faults of today.
class KeptSeedTest : public testing::TestWithParam<uint64_t> {};

TEST_P(KeptSeedTest, KeepsEveryRule) {
  const TrialResult result = run_trial(scenario_of(GetParam()));
  EXPECT_TRUE(result.violations.empty()) << report(GetParam(), result);
  EXPECT_GT(result.elements, 0U);
}

// A rank died while nobody knew its new address, so the others learned of it by the cut-off alone.
// No operation with elements ended before.
TEST(Regroup, TakesTheCutOffForADeathUnseen) {
  const TrialResult result = run_trial(scenario_of(37264));
  EXPECT_TRUE(result.violations.empty()) << report(37264, result);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TrialTest, testing::Range<uint64_t>(1, kSeedsInARow + 1));

// After a host was suspended, connections that waited for TCP's timer accused NICs.
INSTANTIATE_TEST_SUITE_P(AftermathOfASilence, TrialTest,
                         testing::Values<uint64_t>(18611, 28814, 33399, 47086, 73018));

// A rank died before another rank knew its new address. That rank must learn of the death from the
// others.
INSTANTIATE_TEST_SUITE_P(DeathByHearsay, TrialTest, testing::Values<uint64_t>(92262));

// A rank that had lost all its paths localised faults alone, and went on when another rank did so
// too.
INSTANTIATE_TEST_SUITE_P(LocalisedAlone, TrialTest, testing::Values<uint64_t>(3415));

// The localising rank's host was dark, and its own probes were its evidence against another host.
INSTANTIATE_TEST_SUITE_P(DarkLocaliser, TrialTest, testing::Values<uint64_t>(2419));

// A rank without a carrier read a report three seconds late, without the other end's excuse.
INSTANTIATE_TEST_SUITE_P(StaleReport, TrialTest, testing::Values<uint64_t>(6875));

// Each of two simultaneous faults of one rail left evidence against a NIC between them.
INSTANTIATE_TEST_SUITE_P(InnocentBetweenTwoFaults, TrialTest, testing::Values<uint64_t>(90801));

// Two holes hit the same paths of an innocent NIC at the same moment, and no packet was lost later.
INSTANTIATE_TEST_SUITE_P(OneOutageOnManyPaths, KeptSeedTest, testing::Values<uint64_t>(102220));

// The localising rank was suspended, and read the reports of a loss at very different times.
INSTANTIATE_TEST_SUITE_P(LateReports, KeptSeedTest, testing::Values<uint64_t>(103985, 105391));

// An operator asked an idle rank twice, and the rank had no turn for the second answer.
INSTANTIATE_TEST_SUITE_P(IdleRankAnswers, KeptSeedTest, testing::Values<uint64_t>(109111));

// The root of a scatter had bound its last collective and left before a view was committed.
INSTANTIATE_TEST_SUITE_P(ViewAfterALeave, KeptSeedTest, testing::Values<uint64_t>(9500223));

// Bytes that were added to a frame count for the verdict `tampered`, as changed ones do.
INSTANTIATE_TEST_SUITE_P(AddedBytes, KeptSeedTest, testing::Values<uint64_t>(17320));

// A rank read the tampered bytes of a connection that it had given up, and kept to see how it ends.
INSTANTIATE_TEST_SUITE_P(TamperedAfterItsEnd, KeptSeedTest, testing::Values<uint64_t>(13185));

// A host was out of reach for three seconds. Its word that a verdict counts came more than five
// seconds after those of the others, and one rank had dropped the verdict by then.
INSTANTIATE_TEST_SUITE_P(VoucherOutOfReach, KeptSeedTest, testing::Values<uint64_t>(12574));

// One end lost a path because of bytes. The report of the other end arrived so late that it was
// taken for another loss.
INSTANTIATE_TEST_SUITE_P(OneLossReportedLate, KeptSeedTest, testing::Values<uint64_t>(4215));

// One end lost a path because of bytes. The rank that judged the other end's report never had that
// of this end: it could not reach that rank in time, had told a rank that was dead or cut off by
// then, or its job had failed.
INSTANTIATE_TEST_SUITE_P(ExcuseOutOfReach, KeptSeedTest,
                         testing::Values<uint64_t>(63665, 66475, 75905, 84025, 154330));

// A rank that relays had passed a changed frame on to one whose host was suspended.
INSTANTIATE_TEST_SUITE_P(TamperedBehindARelay, KeptSeedTest, testing::Values<uint64_t>(90815));

// The coordinator of a shrink died before the next rank knew its new address. The others told that
// rank their calls, and it waited for the dead one.
INSTANTIATE_TEST_SUITE_P(CoordinatorPassedOver, KeptSeedTest, testing::Values<uint64_t>(18974));

// A peer was stopped between the handshake of a data connection that joined and its proof. A path
// without a data connection was taken for one that full-size frames pass.
INSTANTIATE_TEST_SUITE_P(StoppedWhileDataJoins, KeptSeedTest,
                         testing::Values<uint64_t>(2605, 3624, 3827));

// Ranks decided alone whether a verdict counts that is not by the lowest rank of all.
INSTANTIATE_TEST_SUITE_P(VerdictsOfHigherRanks, KeptSeedTest,
                         testing::Values<uint64_t>(42282, 4565057, 34760, 34803, 6345176, 43947));

// Two ranks that could not reach each other judged one loss: a NIC, and a pair of it. The ranks
// heard of the two in different orders.
INSTANTIATE_TEST_SUITE_P(OneLossJudgedTwice, KeptSeedTest, testing::Values<uint64_t>(79776));

// A path had failed because of its network, its NIC or changed bytes, and the peer was killed a
// moment later.
INSTANTIATE_TEST_SUITE_P(DeathAfterALoss, KeptSeedTest,
                         testing::Values<uint64_t>(925, 121535, 184493, 184579));

// With operators, and with callers that abort or disagree.
TEST(Trial, OfASeedWithPeopleKeepsEveryRule) {
  std::set<std::string> covered;
  for (uint64_t seed = kSeedsWithoutPeople + 1; seed <= kSeedsWithoutPeople + 40; ++seed) {
    const TrialResult result = run_trial(scenario_of(seed));
    EXPECT_TRUE(result.violations.empty()) << report(seed, result);
    covered.insert(result.covered.begin(), result.covered.end());
  }
  for (const char* fault : {"abort", "call_mismatch", "drain", "status"}) {
    EXPECT_TRUE(covered.contains(std::string("fault ") + fault)) << fault;
  }
}

// With the collectives that have blocks, Reduce, every type, and messages with tags.
TEST(Trial, OfASeedWithBlocksKeepsEveryRule) {
  std::set<std::string> covered;
  for (uint64_t seed = kSeedsWithoutBlocks + 1; seed <= kSeedsWithoutBlocks + 60; ++seed) {
    const TrialResult result = run_trial(scenario_of(seed));
    EXPECT_TRUE(result.violations.empty()) << report(seed, result);
    covered.insert(result.covered.begin(), result.covered.end());
  }
  const auto checked = [&](const std::string& words) {
    return std::ranges::any_of(
        covered, [&](const std::string& text) { return text.starts_with(kChecked + words); });
  };
  for (const char* kind :
       {"reduce", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all", "tagged"}) {
    EXPECT_TRUE(checked(std::string(kind) + ", float16") ||
                checked(std::string(kind) + ", bfloat16"))
        << kind;
  }
}

// A cluster of three ranks with a fault of people at 1 ms, and enough to do until after it.
Scenario with_fault(FaultKind kind) {
  Scenario scenario;
  scenario.hosts = 3;
  OperationSpec operation;
  operation.count = 20'000;
  scenario.operations.assign(30, operation);
  FaultSpec fault;
  fault.kind = kind;
  fault.at = kMillisecond;
  fault.host = 1;
  fault.duration = 20 * kMillisecond;
  scenario.faults.push_back(fault);
  return scenario;
}

std::vector<std::string> notes_with(const TrialResult& result, const std::string& words) {
  std::vector<std::string> found;
  for (const TrialNote& note : result.notes) {
    if (note.text.find(words) != std::string::npos) found.push_back(note.text);
  }
  return found;
}

TEST(Trial, OfAnAbortEndsOnEveryRank) {
  const TrialResult result = run_trial(with_fault(FaultKind::abort), true);
  EXPECT_EQ(result.violations, std::vector<std::string>{});
  EXPECT_EQ(notes_with(result, "fails: ").size(), 3U);
  EXPECT_EQ(notes_with(result, "rank 1 (host h1, pid 0) aborted: ").size(), 2U);
}

TEST(Trial, OfACallThatDoesNotMatchEndsOnEveryRankAndNamesTheOddOne) {
  const TrialResult result = run_trial(with_fault(FaultKind::call_mismatch), true);
  EXPECT_EQ(result.violations, std::vector<std::string>{});
  const auto told = notes_with(result, "the ranks' calls do not match: ");
  EXPECT_EQ(told.size(), 3U);
  for (const std::string& text : told) {
    EXPECT_NE(text.find("rank 1 (host h1, pid 0)"), std::string::npos) << text;
    EXPECT_NE(text.find("(20000 int64, max)"), std::string::npos) << text;
  }
}

TEST(Trial, OfOperatorsAnswersThemAndNamesNoNic) {
  for (const FaultKind kind : {FaultKind::drain, FaultKind::status}) {
    const TrialResult result = run_trial(with_fault(kind), true);
    EXPECT_EQ(result.violations, std::vector<std::string>{});
    EXPECT_EQ(notes_with(result, "answers an operator").size(), kind == FaultKind::drain ? 2U : 1U);
    EXPECT_TRUE(notes_with(result, "verdict").empty());
  }
}

TEST(Scenario, OfAnOldSeedHasNoPeople) {
  for (const uint64_t seed : {uint64_t{1}, uint64_t{500}, kSeedsWithoutPeople}) {
    for (const FaultSpec& fault : scenario_of(seed).faults) EXPECT_FALSE(of_people(fault.kind));
  }
}

TEST(Trial, OfOneSeedIsOneRun) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const TrialResult first = run_trial(scenario_of(seed));
    const TrialResult second = run_trial(scenario_of(seed), true);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << seed;
    EXPECT_NE(first.trace_hash, run_trial(scenario_of(seed + 1)).trace_hash) << seed;
  }
}

TEST(Scenario, OfASeedIsLargeEnoughToMeanSomething) {
  int several_communicators = 0;
  constexpr int kSeeds = 1000;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Scenario s = scenario_of(seed);
    EXPECT_EQ(s, scenario_of(seed));
    EXPECT_TRUE(s.hosts >= 2 && s.hosts <= 16 && s.nics >= 1 && s.nics <= 8) << seed;
    EXPECT_GE(s.operations.size(), 20U) << seed;
    EXPECT_GE(s.faults.size(), 3U) << seed;
    several_communicators += s.communicators > 1 ? 1 : 0;
  }
  EXPECT_GE(several_communicators, kSeeds * 3 / 10);
}

}  // namespace
}  // namespace r2ccl::sim
