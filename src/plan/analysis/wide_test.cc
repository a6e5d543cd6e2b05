// Partial sums of 16-bit elements in wide memory: proofs of their plans, and faults in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "plan/analysis/checker.h"
#include "plan/plan.h"
#include "plan/text/plan_text.h"
#include "testing/tiny_plans.h"

namespace r2ccl::wide {
namespace {

// Wide memory has room for four segments, so that its places have many uses. In Bruck's algorithm
// and in a hierarchical ReduceScatter it has room for any vector.
PlanLimits limits_of(const PlanKey& key) {
  PlanLimits limits = tiny_limits();
  const bool whole =
      key.collective == Collective::reduce_scatter &&
      (key.algorithm == Algorithm::recursive_doubling || key.algorithm == Algorithm::hierarchical);
  limits.wide_bytes = whole ? 1 << 20 : 4 * 12 * sizeof(float);
  return limits;
}

PlanKey key_of(Collective collective, Algorithm algorithm, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.collective = collective;
  key.algorithm = algorithm;
  key.type = DataType::bfloat16;
  key.rank_count = ranks;
  key.root = Rank(ranks / 3);
  key.count = count;
  return key;
}

struct Form {
  Collective collective;
  Algorithm algorithm;
};
const std::vector<Form> kForms{{Collective::all_reduce, Algorithm::ring},
                               {Collective::all_reduce, Algorithm::halving_doubling},
                               {Collective::all_reduce, Algorithm::recursive_doubling},
                               {Collective::all_reduce, Algorithm::hierarchical},
                               {Collective::reduce, Algorithm::ring},
                               {Collective::reduce, Algorithm::halving_doubling},
                               {Collective::reduce_scatter, Algorithm::ring},
                               {Collective::reduce_scatter, Algorithm::direct},
                               {Collective::reduce_scatter, Algorithm::recursive_doubling},
                               {Collective::reduce_scatter, Algorithm::hierarchical}};

HostGroups hosts_of(int32_t ranks, const std::function<int32_t(int32_t)>& host_of) {
  std::vector<uint32_t> hosts;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    hosts.push_back(static_cast<uint32_t>(host_of(rank)));
  }
  return HostGroups(hosts);
}

WholePlan build(PlanKey key, const PlanLimits& limits, int32_t every) {
  WholePlan whole;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    key.in_place = every > 0 && rank % every == 0 &&
                   (key.collective != Collective::reduce || key.root == Rank(rank));
    whole.keys.push_back(key);
    whole.plans.push_back(make_plan(key, Rank(rank), limits));
  }
  return whole;
}

void expect_proved(const PlanKey& key, const PlanLimits& limits) {
  for (const int32_t every : {0, 1, 3}) {  // no rank in place, all, each third
    const WholePlan whole = build(key, limits, every);
    const Status status = check_plan(whole.keys, whole.plans);
    ASSERT_TRUE(status.ok()) << "collective " << static_cast<int>(key.collective) << " p "
                             << key.rank_count << " count " << key.count << " algorithm "
                             << static_cast<int>(key.algorithm) << " in place " << every << ": "
                             << status.message();
    for (const RankPlan& plan : whole.plans) {
      ASSERT_LE(plan.wide * sizeof(float), limits.wide_bytes);
    }
  }
}

TEST(WidePlans, AreProvedUpTo17Ranks) {
  for (int32_t ranks = 2; ranks <= 17; ++ranks) {
    const std::vector<uint64_t> counts =
        ranks <= 9 ? std::vector<uint64_t>{1, 7, 41, 200} : std::vector<uint64_t>{1, 60};
    for (const Form& form : kForms) {
      for (const uint64_t count : counts) {
        const PlanKey key = key_of(form.collective, form.algorithm, ranks, count);
        expect_proved(key, limits_of(key));
      }
    }
  }
}

TEST(WidePlans, AreProvedOnSharedHosts) {
  for (const int32_t ranks : {3, 4, 6, 9, 14}) {
    const std::vector<HostGroups> layouts{
        hosts_of(ranks, [](int32_t) { return 0; }),
        hosts_of(ranks, [](int32_t rank) { return rank / 2; }),
        hosts_of(ranks, [](int32_t rank) { return rank / 4; }),
        hosts_of(ranks, [](int32_t rank) { return rank % 3; }),
        hosts_of(ranks, [](int32_t rank) { return rank > 0 ? 1 : 0; })};
    for (const HostGroups& hosts : layouts) {
      for (const Form& form : kForms) {
        for (const uint64_t count : {5, 20, 90, 400}) {
          PlanKey key = key_of(form.collective, form.algorithm, ranks, count);
          key.hosts = hosts;
          key.costs = tiny_costs();
          expect_proved(key, limits_of(key));
        }
      }
    }
  }
}

TEST(WidePlans, AreProvedWithRealSegments) {
  for (const int32_t ranks : {4, 7}) {
    for (const Form& form : kForms) {
      PlanKey key = key_of(form.collective, form.algorithm, ranks, 3'000'000);
      if (form.algorithm == Algorithm::hierarchical) {
        key.hosts = hosts_of(ranks, [](int32_t rank) { return rank / 3; });
      }
      expect_proved(key, kPlanLimits);
    }
  }
}

TEST(WidePlans, AreProvedWithUnequalBlocks) {
  for (int32_t ranks = 3; ranks <= 9; ++ranks) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct}) {
      PlanKey key = key_of(Collective::reduce_scatter, algorithm, ranks, 0);
      for (int32_t rank = 0; rank < ranks; ++rank) {
        key.blocks.counts.push_back(static_cast<uint64_t>(rank * 7 % 5 * 20));
      }
      expect_proved(key, limits_of(key));
    }
  }
}

uint64_t wide_of(const PlanKey& key) {
  uint64_t most = 0;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    most = std::max(most, make_plan(key, Rank(rank)).wide);
  }
  return most;
}

TEST(WidePlans, TakeNoMoreThanTheMemoryOfTheExecutor) {
  EXPECT_EQ(kPlanLimits.wide_bytes, limits::kWideBytes);
}

TEST(WidePlans, AreOnlyForSumsAndProductsOf16BitTypes) {
  PlanKey key = key_of(Collective::reduce_scatter, Algorithm::direct, 4, 100);
  EXPECT_EQ(wide_of(key), 100u);
  for (const ReduceOp op : {ReduceOp::prod, ReduceOp::avg, ReduceOp::premulsum}) {
    key.op = op;
    EXPECT_EQ(wide_of(key), 100u) << to_string(op);
  }
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    key.op = op;
    EXPECT_EQ(wide_of(key), 0u) << to_string(op);
  }
  key.op = ReduceOp::sum;
  for (const DataType type : {DataType::float32, DataType::float64, DataType::int8}) {
    key.type = type;
    EXPECT_EQ(wide_of(key), 0u) << to_string(type);
  }
}

// Where a rank adds only once before it sends, there is nothing to keep.
TEST(WidePlans, AreNoneWhereEachPartialResultIsSent) {
  for (const Form& form : {Form{Collective::all_reduce, Algorithm::ring},
                           Form{Collective::all_reduce, Algorithm::recursive_doubling},
                           Form{Collective::reduce, Algorithm::ring},
                           Form{Collective::reduce_scatter, Algorithm::ring}}) {
    EXPECT_EQ(wide_of(key_of(form.collective, form.algorithm, 6, 1000)), 0u);
  }
  for (const Form& form : kForms) {
    EXPECT_EQ(wide_of(key_of(form.collective, form.algorithm, 2, 1000)), 0u);
  }
}

// Makes one fault in a copy of a proved plan wherever `damage` finds one, and expects the words.
void expect_caught(const PlanKey& key, const std::string& words,
                   const std::function<bool(RankPlan&, Step&)>& damage) {
  const WholePlan whole = build(key, limits_of(key), 1);
  uint64_t faults = 0;
  for (size_t rank = 0; rank < whole.plans.size(); ++rank) {
    for (size_t i = 0; i < whole.plans[rank].steps.size(); ++i) {
      WholePlan faulty = whole;
      if (!damage(faulty.plans[rank], faulty.plans[rank].steps[i])) continue;
      ++faults;
      const Status status = check_plan(faulty.keys, faulty.plans);
      ASSERT_FALSE(status.ok()) << words << ": rank " << rank << " step " << i;
      EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    }
  }
  EXPECT_GT(faults, 0u);
}

const PlanKey kDirect = key_of(Collective::reduce_scatter, Algorithm::direct, 4, 5);
const PlanKey kHalving = key_of(Collective::all_reduce, Algorithm::halving_doubling, 6, 41);
const PlanKey kBruck = key_of(Collective::reduce_scatter, Algorithm::recursive_doubling, 5, 2);

TEST(WidePlanFaults, ASendOfASumThatIsNotRounded) {
  for (const PlanKey& key : {kHalving, kBruck}) {
    expect_caught(key, "sends what is not rounded", [](RankPlan& plan, Step& step) {
      if (step.kind != StepKind::send || step.source.count > plan.wide) return false;
      step.source.buffer = Buffer::wide;
      step.source.offset = 0;
      return true;
    });
  }
}

TEST(WidePlanFaults, AResultThatIsNotRounded) {
  expect_caught(kDirect, "is the last reduction but does not round", [](RankPlan&, Step& step) {
    if (!step.last_reduction) return false;
    step.target = step.source;
    return true;
  });
}

// The copy that rounds before a send is left out: the place of the sum has another value.
TEST(WidePlanFaults, ARoundingThatIsForgotten) {
  for (const PlanKey& key : {kHalving, kBruck}) {
    const WholePlan whole = build(key, limits_of(key), 0);
    for (size_t rank = 0; rank < whole.plans.size(); ++rank) {
      for (size_t i = 0; i < whole.plans[rank].steps.size(); ++i) {
        WholePlan faulty = whole;
        Step& step = faulty.plans[rank].steps[i];
        if (step.kind != StepKind::copy || step.source.buffer != Buffer::wide) continue;
        step.source.count = step.target.count = 0;
        EXPECT_FALSE(check_plan(faulty.keys, faulty.plans).ok()) << rank << " " << i;
      }
    }
  }
}

// Rounds after each addition: right, but with more roundings than there must be.
TEST(WidePlanFaults, ASumThatIsRoundedBeforeFurtherAdditions) {
  WholePlan whole = build(kDirect, limits_of(kDirect), 0);
  for (Step& step : whole.plans[1].steps) {
    for (Region* region : {&step.source, &step.target}) {
      if (region->buffer == Buffer::wide) *region = {Buffer::output, 0, region->count};
    }
  }
  const Status status = check_plan(whole.keys, whole.plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("adds to what it rounded and did not send"), std::string::npos)
      << status.message();
}

TEST(WidePlanFaults, AMessageThatArrivesInWideMemory) {
  expect_caught(kHalving, "receives into wide memory", [](RankPlan& plan, Step& step) {
    if (step.kind != StepKind::receive || step.target.count > plan.wide) return false;
    step.target.buffer = Buffer::wide;
    step.target.offset = 0;
    return true;
  });
}

TEST(WidePlanFaults, ATypeThatHasNoWideForm) {
  PlanKey key = kDirect;
  WholePlan whole = build(key, limits_of(key), 0);
  for (PlanKey& each : whole.keys) each.op = ReduceOp::max;
  const Status status = check_plan(whole.keys, whole.plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("uses a wide form that the type has not"), std::string::npos);
}

TEST(WidePlanFaults, WideMemoryThatIsTooSmall) {
  WholePlan whole = build(kDirect, limits_of(kDirect), 0);
  whole.plans[2].wide -= 1;
  const Status status = check_plan(whole.keys, whole.plans);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("outside of the buffer"), std::string::npos);
}

TEST(WidePlans, ComeBackFromTheirText) {
  for (const PlanKey& key : {kDirect, kHalving, kBruck}) {
    const WholePlan whole = build(key, limits_of(key), 3);
    EXPECT_NE(print_plan(whole).find(" wide "), std::string::npos);
    const Result<WholePlan> again = parse_plan(print_plan(whole));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again.value(), whole);
  }
}

}  // namespace
}  // namespace r2ccl::wide
