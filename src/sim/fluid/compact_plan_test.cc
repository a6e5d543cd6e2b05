#include "sim/fluid/compact_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "sim/fluid/fluid_plan.h"
#include "testing/tiny_plans.h"

namespace r2ccl::sim {
namespace {

std::vector<uint32_t> after_of(const CompactPlan& plan, const CompactStep& step) {
  std::vector<uint32_t> after;
  uint32_t at = step.after;
  for (uint32_t i = 0; i < step.after_count; ++i) after.push_back(step.number - plan.read(at));
  return after;
}

void expect_same(const CompactPlan& compact, const CompactStep& step, const Step& original) {
  EXPECT_EQ(step.count,
            original.kind == StepKind::send ? original.source.count : original.target.count);
  EXPECT_EQ(step.reduces, original.kind == StepKind::receive_reduce);
  EXPECT_EQ(after_of(compact, step), original.after);
}

// Returns the numbers of the steps of a direction and peer.
std::vector<uint32_t> steps_with(const RankPlan& plan, bool sends, Rank peer) {
  std::vector<uint32_t> steps;
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.kind == StepKind::copy || step.peer != peer) continue;
    if ((step.kind == StepKind::send) == sends) steps.push_back(i);
  }
  return steps;
}

void expect_same(const CompactPlan& compact, const RankPlan& plan) {
  ASSERT_EQ(compact.steps(), plan.steps.size());
  size_t seen = compact.copies().size();
  for (const CompactPlan::Queue& queue : compact.queues()) {
    const std::vector<uint32_t> numbers = steps_with(plan, queue.sends, queue.peer);
    ASSERT_EQ(queue.length, numbers.size());
    CompactStep step;
    uint32_t at = queue.begin;
    for (const uint32_t number : numbers) {
      compact.read_step(at, step);
      ASSERT_EQ(step.number, number);
      expect_same(compact, step, plan.steps[number]);
      ++seen;
    }
  }
  EXPECT_EQ(seen, plan.steps.size());
  for (const CompactStep& copy : compact.copies()) {
    EXPECT_EQ(plan.steps[copy.number].kind, StepKind::copy);
    expect_same(compact, copy, plan.steps[copy.number]);
  }
  uint32_t at = compact.staged_begin();
  uint32_t staged = 0;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::receive_reduce) continue;
    EXPECT_EQ(compact.read(at), compact.find(false, step.peer));
    ++staged;
  }
  EXPECT_EQ(compact.staged_count(), staged);
}

TEST(CompactPlanTest, HasAllStepsOfThePlan) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::all_gather, Collective::barrier,
        Collective::scatter, Collective::all_to_all}) {
    for (const Algorithm algorithm :
         {Algorithm::ring, Algorithm::halving_doubling, Algorithm::recursive_doubling,
          Algorithm::direct, Algorithm::nested}) {
      PlanKey key;
      key.collective = collective;
      key.algorithm = algorithm;
      key.type = DataType::bfloat16;  // its copies into and out of wide memory
      key.rank_count = 7;
      key.count = 200;
      for (int32_t rank = 0; rank < key.rank_count; ++rank) {
        const RankPlan plan = make_plan(key, Rank(rank), tiny_limits());
        const Result<CompactPlan> compact = CompactPlan::of(plan);
        ASSERT_TRUE(compact.ok());
        expect_same(compact.value(), plan);
      }
    }
  }
}

TEST(CompactPlanTest, FindsNoQueueOfAnotherPeer) {
  RankPlan plan;
  plan.steps.push_back({.kind = StepKind::send, .peer = Rank(3)});
  const CompactPlan compact = CompactPlan::of(plan).value();
  EXPECT_EQ(compact.find(true, Rank(3)), 0U);
  EXPECT_EQ(compact.find(false, Rank(3)), 1U);
  EXPECT_EQ(compact.find(true, Rank(2)), 1U);
}

TEST(FluidPlanTest, TakesAFewBytesAStep) {
  PlanKey key;
  key.algorithm = Algorithm::ring;
  key.rank_count = 16;
  key.count = 64 << 20;
  const FluidPlan plan = FluidPlan::of(key).value();
  EXPECT_EQ(plan.messages(), 2 * 15 * 16 * 64U);
  EXPECT_LT(plan.memory(), 2 * plan.messages() * 8);
}

TEST(FluidPlanTest, RefusesAPlanThatNeedsMoreMemory) {
  PlanKey key;
  key.algorithm = Algorithm::ring;
  key.rank_count = 64;
  key.count = 64 << 20;
  const Result<FluidPlan> plan = FluidPlan::of(key, kPlanLimits, 1 << 20);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("take larger segments"), std::string::npos)
      << plan.status().message();
}

}  // namespace
}  // namespace r2ccl::sim
