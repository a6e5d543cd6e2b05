#include "plan/analysis/checker.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/algorithms.h"
#include "testing/tiny_plans.h"

namespace r2ccl {
namespace {

struct Whole {
  std::vector<PlanKey> keys;
  std::vector<RankPlan> plans;

  Status check() const { return check_plan(keys, plans); }
};

// Builds a plan; in_place(rank) tells where the input lies.
template <typename InPlace>
Whole build(PlanKey key, const PlanLimits& limits, InPlace in_place) {
  Whole whole;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    key.in_place = in_place(rank);
    whole.keys.push_back(key);
    whole.plans.push_back(make_plan(key, Rank(rank), limits));
  }
  return whole;
}

PlanKey key_of(Collective collective, Algorithm algorithm, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.collective = collective;
  key.algorithm = algorithm;
  key.rank_count = ranks;
  key.count = count;
  key.costs = tiny_costs();
  return key;
}

void expect_proved(const PlanKey& key, const PlanLimits& limits) {
  const auto prove = [&](auto in_place) {
    const Status status = build(key, limits, in_place).check();
    ASSERT_TRUE(status.ok()) << "p " << key.rank_count << " count " << key.count << " algorithm "
                             << static_cast<int>(key.algorithm) << ": " << status.message();
  };
  prove([](int32_t) { return false; });
  prove([](int32_t) { return true; });
  prove([](int32_t rank) { return rank % 3 == 1; });
}

// Returns several ways in which `ranks` ranks can share hosts, with their names.
std::vector<std::pair<std::string, HostGroups>> layouts(int32_t ranks) {
  const auto layout = [&](auto host_of) {
    std::vector<uint32_t> hosts;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      hosts.push_back(static_cast<uint32_t>(host_of(rank)));
    }
    return HostGroups(hosts);
  };
  return {{"a host for each rank", layout([](int32_t rank) { return rank; })},
          {"one host", layout([](int32_t) { return 7; })},
          {"two hosts", layout([&](int32_t rank) { return 2 * rank / ranks; })},
          {"two ranks a host", layout([](int32_t rank) { return rank / 2; })},
          {"four ranks a host", layout([](int32_t rank) { return rank / 4; })},
          {"one rank alone", layout([](int32_t rank) { return rank > 0 ? 1 : 0; })},
          {"interleaved", layout([](int32_t rank) { return rank % 3; })},
          {"unequal",
           layout([](int32_t rank) { return std::bit_width(static_cast<unsigned>(rank)); })}};
}

TEST(PlanChecker, MeetsEachAlgorithmAmongHosts) {
  std::set<Algorithm> met;
  for (const uint64_t count : {2, 20, 50, 100, 150, 200, 250, 400, 1000}) {
    PlanKey key = key_of(Collective::all_reduce, Algorithm::hierarchical, 8, count);
    key.hosts = layouts(8)[3].second;
    met.insert(reduction_among_leaders(key, tiny_limits()));
  }
  EXPECT_EQ(met.size(), 3u);
}

constexpr std::array kReductionAlgorithms{Algorithm::ring, Algorithm::halving_doubling,
                                          Algorithm::recursive_doubling};

TEST(PlanChecker, ProvesEveryAllReduceUpTo16Ranks) {
  for (int32_t ranks = 1; ranks <= 16; ++ranks) {
    const auto p = static_cast<uint64_t>(ranks);
    for (const Algorithm algorithm : kReductionAlgorithms) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, p - 1, p, p + 1, 7 * p + 3, 31 * p}) {
        expect_proved(key_of(Collective::all_reduce, algorithm, ranks, count), tiny_limits());
      }
    }
  }
}

TEST(PlanChecker, ProvesEveryHierarchicalAllReduceUpTo33Ranks) {
  for (int32_t ranks = 2; ranks <= 33; ++ranks) {
    const auto p = static_cast<uint64_t>(ranks);
    // Long vectors of many ranks take seconds to check.
    const std::vector<uint64_t> counts =
        ranks <= 10 ? std::vector{uint64_t{1}, p - 1, 7 * p + 3, 31 * p} : std::vector{5 * p + 3};
    for (const auto& [name, hosts] : layouts(ranks)) {
      SCOPED_TRACE(name);
      for (const uint64_t count : counts) {
        PlanKey key = key_of(Collective::all_reduce, Algorithm::hierarchical, ranks, count);
        key.hosts = hosts;
        expect_proved(key, tiny_limits());
      }
    }
  }
}

TEST(PlanChecker, ProvesHierarchicalAllReducesOfRealSegments) {
  for (const int32_t ranks : {4, 8, 15}) {
    for (const auto& [name, hosts] : layouts(ranks)) {
      SCOPED_TRACE(name);
      PlanKey key = key_of(Collective::all_reduce, Algorithm::hierarchical, ranks, 1 << 20);
      key.hosts = hosts;
      expect_proved(key, kPlanLimits);
    }
  }
}

TEST(PlanChecker, ProvesAllReducesOfRealSegments) {
  for (const int32_t ranks : {2, 4, 7, 16}) {
    for (const Algorithm algorithm : kReductionAlgorithms) {
      expect_proved(key_of(Collective::all_reduce, algorithm, ranks, 1 << 20), kPlanLimits);
    }
  }
}

TEST(PlanChecker, ProvesEveryBroadcastUpTo16Ranks) {
  for (int32_t ranks = 1; ranks <= 16; ++ranks) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
      for (const uint64_t count : {0, 1, 50}) {
        PlanKey key = key_of(Collective::broadcast, algorithm, ranks, count);
        key.root = Rank(ranks / 3);
        expect_proved(key, tiny_limits());
      }
    }
  }
}

TEST(PlanChecker, ProvesBroadcastsAndBarriersOfSharedHostsUpTo33Ranks) {
  for (int32_t ranks = 2; ranks <= 33; ++ranks) {
    for (const auto& [name, hosts] : layouts(ranks)) {
      SCOPED_TRACE(name);
      PlanKey key = key_of(Collective::barrier, Algorithm::automatic, ranks, 0);
      key.hosts = hosts;
      expect_proved(key, kPlanLimits);
      for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
        key = key_of(Collective::broadcast, algorithm, ranks, 50);
        key.hosts = hosts;
        key.root = Rank(ranks / 3);
        expect_proved(key, tiny_limits());
      }
    }
  }
}

TEST(PlanChecker, ProvesEveryBarrierUpTo33Ranks) {
  for (int32_t ranks = 1; ranks <= 33; ++ranks) {
    expect_proved(key_of(Collective::barrier, Algorithm::automatic, ranks, 0), kPlanLimits);
  }
}

// The checker must find every single fault of a kind, in every place of a plan.
class Mutants : public testing::TestWithParam<PlanKey> {
 protected:
  // Applies `mutate` to each step in turn; it returns false where it changes nothing.
  template <typename Mutate>
  void expect_all_caught(const std::string& what, Mutate mutate) const {
    for (const bool in_place : {false, true}) {
      const Whole whole = build(GetParam(), tiny_limits(), [&](int32_t) { return in_place; });
      ASSERT_TRUE(whole.check().ok()) << whole.check().message();
      int made = 0;
      for (size_t rank = 0; rank < whole.plans.size(); ++rank) {
        for (size_t i = 0; i < whole.plans[rank].steps.size(); ++i) {
          Whole mutant = whole;
          if (!mutate(mutant.plans[rank], i)) continue;
          ++made;
          ASSERT_FALSE(mutant.check().ok()) << what << " at rank " << rank << " step " << i
                                            << (in_place ? " in place" : " out of place");
        }
      }
      EXPECT_TRUE(made > 0 || !in_place) << what << " was never possible";
    }
  }
};

TEST_P(Mutants, ADroppedDependencyIsCaught) {
  const auto drop = [](auto which) {
    return [which](RankPlan& plan, size_t i) {
      auto& after = plan.steps[i].after;
      if (after.empty()) return false;
      after.erase(which(after));
      return true;
    };
  };
  expect_all_caught("first dependency dropped", drop([](auto& after) { return after.begin(); }));
  expect_all_caught("last dependency dropped", drop([](auto& after) { return after.end() - 1; }));
}

TEST_P(Mutants, TwoSwappedStepsOfAStepQueueAreCaught) {
  expect_all_caught("swap", [](RankPlan& plan, size_t i) {
    for (size_t j = i + 1; j < plan.steps.size(); ++j) {
      Step& a = plan.steps[i];
      Step& b = plan.steps[j];
      if (a.kind == StepKind::copy || b.kind == StepKind::copy) continue;
      if (a.peer != b.peer || (a.kind == StepKind::send) != (b.kind == StepKind::send)) continue;
      std::swap(a, b);
      return true;
    }
    return false;
  });
}

TEST_P(Mutants, ARemovedStepIsCaught) {
  expect_all_caught("removal", [](RankPlan& plan, size_t i) {
    if (i + 1 != plan.steps.size()) return false;
    plan.steps.pop_back();
    return true;
  });
}

TEST_P(Mutants, ARegionOffByOneElementIsCaught) {
  const auto nudge = [](auto change) {
    return [change](RankPlan& plan, size_t i) {
      Step& step = plan.steps[i];
      change(step.kind == StepKind::send ? step.source : step.target);
      return true;
    };
  };
  expect_all_caught("later offset", nudge([](Region& region) { ++region.offset; }));
  expect_all_caught("larger count", nudge([](Region& region) { ++region.count; }));
  expect_all_caught("smaller count", nudge([](Region& region) { --region.count; }));
}

TEST_P(Mutants, AnotherKindOfStepIsCaught) {
  expect_all_caught("kind", [](RankPlan& plan, size_t i) {
    Step& step = plan.steps[i];
    if (step.kind == StepKind::receive) {
      step.kind = StepKind::receive_reduce;
      step.source = {Buffer::input, step.target.offset, step.target.count};
    } else if (step.kind == StepKind::receive_reduce) {
      step.kind = StepKind::receive;
    } else {
      return false;
    }
    return true;
  });
}

TEST_P(Mutants, AnotherPeerIsCaught) {
  expect_all_caught("peer", [](RankPlan& plan, size_t i) {
    Step& step = plan.steps[i];
    if (step.kind == StepKind::copy) return false;
    step.peer = Rank(step.peer == Rank(0) ? 1 : 0);
    return true;
  });
}

class ReductionMutants : public Mutants {};
class ExchangeMutants : public Mutants {};

// Only where several ranks compute the same result does the order of the operands matter.
TEST_P(ExchangeMutants, OperandsInAnotherOrderAreCaught) {
  expect_all_caught("order", [](RankPlan& plan, size_t i) {
    Step& step = plan.steps[i];
    if (step.kind != StepKind::receive_reduce) return false;
    step.operands =
        step.operands == Operands::own_first ? Operands::received_first : Operands::own_first;
    return true;
  });
}

TEST_P(ReductionMutants, AWrongMarkOfTheLastReductionIsCaught) {
  expect_all_caught("mark", [](RankPlan& plan, size_t i) {
    Step& step = plan.steps[i];
    if (step.kind != StepKind::receive_reduce) return false;
    step.last_reduction = !step.last_reduction;
    return true;
  });
}

std::string name_of(const testing::TestParamInfo<PlanKey>& info) {
  const PlanKey& key = info.param;
  const auto name_of_algorithm = [&]() -> std::string {
    switch (key.algorithm) {
      case Algorithm::automatic:
        return "automatic_";
      case Algorithm::ring:
        return "ring_";
      case Algorithm::halving_doubling:
        return "halving_doubling_";
      case Algorithm::recursive_doubling:
        return "recursive_doubling_";
      case Algorithm::hierarchical:
        return "hierarchical_";
      case Algorithm::direct:
        return "direct_";
      case Algorithm::nested:
        return "nested_";
      case Algorithm::split:
        return "split_";
      case Algorithm::recursive_split:
        return "recursive_split_";
      case Algorithm::leaf:
        return "leaf_";
      case Algorithm::packed:
        return "packed_";
    }
    return "";
  };
  const auto name_of_collective = [&]() -> std::string {
    switch (key.collective) {
      case Collective::broadcast:
        return "broadcast_";
      case Collective::all_gather:
        return "all_gather_";
      case Collective::reduce_scatter:
        return "reduce_scatter_";
      default:
        return "all_reduce_";
    }
  };
  return name_of_collective() + name_of_algorithm() + std::to_string(key.rank_count);
}

PlanKey hierarchical(const std::vector<uint32_t>& host_of, uint64_t count,
                     Collective collective = Collective::all_reduce) {
  PlanKey key =
      key_of(collective, Algorithm::hierarchical, static_cast<int32_t>(host_of.size()), count);
  key.hosts = HostGroups(host_of);
  return key;
}

// Returns the key with elements whose partial sums lie in wide memory.
PlanKey of_halves(PlanKey key) {
  key.type = DataType::float16;
  return key;
}

const auto kReductions =
    testing::Values(key_of(Collective::all_reduce, Algorithm::ring, 2, 29),
                    key_of(Collective::all_reduce, Algorithm::ring, 3, 40),
                    key_of(Collective::all_reduce, Algorithm::ring, 4, 53),
                    key_of(Collective::all_reduce, Algorithm::halving_doubling, 2, 29),
                    key_of(Collective::all_reduce, Algorithm::halving_doubling, 4, 37),
                    key_of(Collective::all_reduce, Algorithm::halving_doubling, 5, 31),
                    key_of(Collective::all_reduce, Algorithm::recursive_doubling, 4, 7),
                    key_of(Collective::all_reduce, Algorithm::recursive_doubling, 6, 7),
                    hierarchical({0, 0, 0}, 17),               // one host
                    hierarchical({0, 0, 1, 1}, 50),            // a ring of two columns
                    hierarchical({0, 1, 0, 1, 0}, 20),         // halving-doubling, one rank more
                    hierarchical({0, 0, 0, 1, 1, 2, 2}, 41));  // a ring of hosts
const auto kExchanges =
    testing::Values(key_of(Collective::all_reduce, Algorithm::recursive_doubling, 2, 7),
                    key_of(Collective::all_reduce, Algorithm::recursive_doubling, 8, 7));
const auto kBroadcasts =
    testing::Values(key_of(Collective::broadcast, Algorithm::ring, 4, 20),
                    key_of(Collective::broadcast, Algorithm::halving_doubling, 5, 13));
const auto kGathers =
    testing::Values(key_of(Collective::all_gather, Algorithm::ring, 3, 8),
                    key_of(Collective::all_gather, Algorithm::recursive_doubling, 4, 2),
                    hierarchical({0, 0, 1, 1, 2}, 4, Collective::all_gather));
const auto kScatters = testing::Values(key_of(Collective::reduce_scatter, Algorithm::ring, 3, 8),
                                       key_of(Collective::reduce_scatter, Algorithm::direct, 3, 8));
// In place their last reductions name dependencies that follow from others.
const auto kHalves =
    testing::Values(of_halves(key_of(Collective::all_reduce, Algorithm::halving_doubling, 6, 75)),
                    of_halves(hierarchical({0, 0, 0, 1, 1, 2, 2}, 83)),
                    of_halves(key_of(Collective::reduce_scatter, Algorithm::direct, 4, 16)));
// In place these have a dependency that follows from another one.
const auto kScattersInScratch =
    testing::Values(key_of(Collective::reduce_scatter, Algorithm::recursive_doubling, 4, 2),
                    hierarchical({0, 0, 0}, 4, Collective::reduce_scatter),
                    hierarchical({0, 0, 1, 1, 2}, 4, Collective::reduce_scatter));
INSTANTIATE_TEST_SUITE_P(Reductions, Mutants, kReductions, name_of);
INSTANTIATE_TEST_SUITE_P(Gathers, Mutants, kGathers, name_of);
INSTANTIATE_TEST_SUITE_P(Scatters, Mutants, kScatters, name_of);
INSTANTIATE_TEST_SUITE_P(Scatters, ReductionMutants, kScatters, name_of);
INSTANTIATE_TEST_SUITE_P(Halves, ReductionMutants, kHalves, name_of);
INSTANTIATE_TEST_SUITE_P(InScratch, ReductionMutants, kScattersInScratch, name_of);
INSTANTIATE_TEST_SUITE_P(Broadcasts, Mutants, kBroadcasts, name_of);
INSTANTIATE_TEST_SUITE_P(Exchanges, ExchangeMutants, kExchanges, name_of);
INSTANTIATE_TEST_SUITE_P(Reductions, ReductionMutants, kReductions, name_of);

// Makes a plan by hand; each has one fault.
Whole by_hand(std::vector<std::vector<Step>> steps, uint64_t count) {
  Whole whole;
  PlanKey key =
      key_of(Collective::all_reduce, Algorithm::ring, static_cast<int32_t>(steps.size()), count);
  key.in_place = true;
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    whole.plans.push_back({Rank(static_cast<int32_t>(rank)), std::move(steps[rank])});
    whole.keys.push_back(key);
  }
  return whole;
}

Step send(int32_t peer, uint64_t element, std::vector<uint32_t> after = {}) {
  Step step;
  step.kind = StepKind::send;
  step.peer = Rank(peer);
  step.source = {Buffer::output, element, 1};
  step.after = std::move(after);
  return step;
}

Step receive(int32_t peer, uint64_t element, std::vector<uint32_t> after = {}) {
  Step step;
  step.kind = StepKind::receive;
  step.peer = Rank(peer);
  step.target = {Buffer::output, element, 1};
  step.after = std::move(after);
  return step;
}

Step reduce(int32_t peer, uint64_t element, std::vector<uint32_t> after = {}) {
  Step step = receive(peer, element, std::move(after));
  step.kind = StepKind::receive_reduce;
  step.source = step.target;
  return step;
}

void expect_error(const Whole& whole, const std::string& words) {
  const Status status = whole.check();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

TEST(PlanChecker, FindsThatBothRanksReceiveBeforeTheySend) {
  expect_error(by_hand({{receive(1, 0), send(1, 0, {0})}, {receive(0, 0), send(0, 0, {0})}}, 1),
               "deadlock");
}

// Rank 0's first reduction needs, through rank 1, its second one, which gets no slot before.
TEST(PlanChecker, FindsADeadlockThatOnlyScarceStagingHas) {
  expect_error(by_hand({{reduce(1, 0), reduce(2, 1), send(1, 1, {1})},
                        {receive(0, 1), send(0, 0, {0})},
                        {send(0, 1)}},
                       2),
               "deadlock");
}

TEST(PlanChecker, FindsASendWhoseSourceIsOverwrittenWhileUnderway) {
  expect_error(by_hand({{send(1, 0), receive(1, 0)}, {receive(0, 0), send(0, 0, {0})}}, 1),
               "overwrites what this step reads");
}

TEST(PlanChecker, FindsReductionsThatMayRunInEitherOrder) {
  expect_error(by_hand({{reduce(1, 0), reduce(2, 0)}, {send(0, 0)}, {send(0, 0)}}, 1),
               "what this step writes: 0");
}

TEST(PlanChecker, FindsThatAnInputIsReducedTwice) {
  expect_error(by_hand({{reduce(1, 0), reduce(1, 0, {0})}, {send(0, 0), send(0, 0)}, {}}, 1),
               "already in");
}

TEST(PlanChecker, FindsThatRanksReduceInDifferentOrders) {
  Whole whole = by_hand({{send(1, 0), reduce(1, 0)}, {send(0, 0), reduce(0, 0)}}, 1);
  for (RankPlan& plan : whole.plans) {
    plan.steps[0].source.buffer = Buffer::input;
    plan.steps[1].source.buffer = Buffer::input;
    plan.steps[1].last_reduction = true;
  }
  for (PlanKey& key : whole.keys) key.in_place = false;
  expect_error(whole, "another order");
}

TEST(PlanChecker, FindsThatARankMayLeaveABarrierEarly) {
  Whole whole = build(key_of(Collective::barrier, Algorithm::automatic, 4, 0), kPlanLimits,
                      [](int32_t) { return false; });
  for (Step& step : whole.plans[2].steps) step.after.clear();
  expect_error(whole, "may leave before");
}

}  // namespace
}  // namespace r2ccl
