// The collectives with a root or with blocks: proofs of their plans, and the bytes that they move.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/limits.h"
#include "plan/analysis/checker.h"
#include "plan/holdings.h"
#include "plan/plan.h"
#include "testing/tiny_plans.h"

namespace r2ccl::blocks {
namespace {

// Few spare slots, so that these have many uses. The algorithms that keep the whole vector get the
// memory for it.
PlanLimits limits_of(Algorithm algorithm = Algorithm::automatic) {
  const bool keeps_all =
      algorithm == Algorithm::recursive_doubling || algorithm == Algorithm::hierarchical;
  PlanLimits limits = tiny_limits();
  limits.spare_scratch_bytes = keeps_all ? 1 << 20 : 24;
  return limits;
}

PlanKey key_of(Collective collective, Algorithm algorithm, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.collective = collective;
  key.algorithm = algorithm;
  key.rank_count = ranks;
  key.count = count;
  key.root = Rank(ranks / 3);
  return key;
}

using Keys = std::vector<PlanKey>;

Status check(const Keys& keys, const PlanLimits& limits) {
  std::vector<RankPlan> plans;
  for (int32_t rank = 0; rank < keys[0].rank_count; ++rank) {
    plans.push_back(make_plan(keys[static_cast<size_t>(rank)], Rank(rank), limits));
  }
  return check_plan(keys, plans);
}

// Returns whether the collective has a call in place on this rank.
bool may_be_in_place(const PlanKey& key, int32_t rank) {
  switch (key.collective) {
    case Collective::reduce:
    case Collective::gather:
    case Collective::scatter:
      return key.root == Rank(rank);
    case Collective::all_to_all:
      return false;
    default:
      return true;
  }
}

void expect_proved(Keys keys, const PlanLimits& limits) {
  for (const int every : {0, 1, 3}) {  // no rank in place, all, each third
    for (int32_t rank = 0; rank < keys[0].rank_count; ++rank) {
      PlanKey& key = keys[static_cast<size_t>(rank)];
      key.in_place = every > 0 && rank % every == 0 && may_be_in_place(key, rank);
    }
    const Status status = check(keys, limits);
    ASSERT_TRUE(status.ok()) << "collective " << static_cast<int>(keys[0].collective) << " p "
                             << keys[0].rank_count << " count " << keys[0].count << " algorithm "
                             << static_cast<int>(keys[0].algorithm) << " in place " << every << ": "
                             << status.message();
  }
}

Keys for_all(const PlanKey& key) {
  return Keys(static_cast<size_t>(key.rank_count), key);
}

struct Form {
  Collective collective;
  Algorithm algorithm;
};
const std::vector<Form> kForms{{Collective::reduce, Algorithm::ring},
                               {Collective::reduce, Algorithm::halving_doubling},
                               {Collective::all_gather, Algorithm::ring},
                               {Collective::all_gather, Algorithm::direct},
                               {Collective::all_gather, Algorithm::recursive_doubling},
                               {Collective::all_gather, Algorithm::hierarchical},
                               {Collective::reduce_scatter, Algorithm::ring},
                               {Collective::reduce_scatter, Algorithm::direct},
                               {Collective::reduce_scatter, Algorithm::hierarchical},
                               {Collective::reduce_scatter, Algorithm::recursive_doubling},
                               {Collective::gather, Algorithm::automatic},
                               {Collective::scatter, Algorithm::automatic},
                               {Collective::all_to_all, Algorithm::automatic}};
const std::vector<Collective> kWithCounts{Collective::all_gather, Collective::reduce_scatter,
                                          Collective::gather, Collective::scatter};

constexpr int32_t kLayouts = 5;

// Returns one of several ways in which ranks can share hosts.
HostGroups hosts_of(int32_t ranks, int32_t layout) {
  const auto host_of = [&](int32_t rank) {
    switch (layout) {
      case 1:
        return rank / 4;
      case 2:
        return rank % 3;
      case 3:
        return 0;
      case 4:
        return 2 * rank / ranks;
      default:
        return static_cast<int32_t>(std::bit_width(static_cast<unsigned>(rank)));
    }
  };
  std::vector<uint32_t> hosts;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    hosts.push_back(static_cast<uint32_t>(host_of(rank)));
  }
  return HostGroups(hosts);
}

TEST(Collectives, AreProvedUpTo33Ranks) {
  for (int32_t ranks = 1; ranks <= 33; ++ranks) {
    const std::vector<uint64_t> counts =
        ranks <= 9 ? std::vector<uint64_t>{0, 1, 2, 7, 40} : std::vector<uint64_t>{1, 9};
    for (const Form& form : kForms) {
      for (const uint64_t count : counts) {
        expect_proved(for_all(key_of(form.collective, form.algorithm, ranks, count)),
                      limits_of(form.algorithm));
      }
    }
  }
}

TEST(Collectives, AreProvedOnSharedHosts) {
  for (const int32_t ranks : {2, 3, 5, 8, 13, 33}) {
    for (int32_t layout = 1; layout <= kLayouts; ++layout) {
      for (const Form& form : kForms) {
        PlanKey key = key_of(form.collective, form.algorithm, ranks, 9);
        key.hosts = hosts_of(ranks, layout);
        expect_proved(for_all(key), limits_of(form.algorithm));
      }
    }
  }
}

TEST(HierarchicalBlocks, AreProvedUpTo33Ranks) {
  for (int32_t ranks = 2; ranks <= 33; ++ranks) {
    for (int32_t layout = 1; layout <= kLayouts; ++layout) {
      for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
        for (const uint64_t count : {1, 9}) {
          PlanKey key = key_of(collective, Algorithm::hierarchical, ranks, count);
          key.hosts = hosts_of(ranks, layout);
          const PlanLimits limits = limits_of(key.algorithm);
          ASSERT_EQ(choose_algorithm(key, limits),
                    key.hosts.empty() ? choose_algorithm(key, limits) : Algorithm::hierarchical);
          expect_proved(for_all(key), limits);
        }
      }
    }
  }
}

TEST(Collectives, AreProvedWithRealSegments) {
  for (const int32_t ranks : {2, 4, 7}) {
    for (const Form& form : kForms) {
      expect_proved(for_all(key_of(form.collective, form.algorithm, ranks, 300'000)), kPlanLimits);
    }
  }
}

// Blocks of different sizes, some without elements.
TEST(Collectives, WithUnequalBlocksAreProved) {
  for (int32_t ranks = 1; ranks <= 17; ++ranks) {
    for (const Collective collective : kWithCounts) {
      for (const Algorithm algorithm :
           {Algorithm::automatic, Algorithm::ring, Algorithm::recursive_doubling}) {
        PlanKey key = key_of(collective, algorithm, ranks, 0);
        for (int32_t rank = 0; rank < ranks; ++rank) {
          key.blocks.counts.push_back(static_cast<uint64_t>(rank * 7 % 5 * (rank % 3)));
        }
        expect_proved(for_all(key), limits_of());
      }
    }
  }
}

// Each rank keeps the blocks in another order, with gaps.
TEST(Collectives, WithBlocksAnywhereAreProved) {
  constexpr int32_t kRanks = 6;
  for (const Collective collective : kWithCounts) {
    PlanKey key = key_of(collective, Algorithm::automatic, kRanks, 0);
    key.blocks.counts = {3, 0, 8, 1, 5, 2};
    Keys keys = for_all(key);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      for (int32_t block = 0; block < kRanks; ++block) {
        const auto place = static_cast<uint64_t>((block + rank) % kRanks);
        keys[static_cast<size_t>(rank)].blocks.starts.push_back(place * 10);
      }
    }
    expect_proved(keys, limits_of());
  }
}

// A rank other than the root needs the count of its own block only.
TEST(Gather, WithUnequalBlocksIsProvedWhereRanksKnowTheirOwn) {
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    PlanKey key = key_of(collective, Algorithm::automatic, 5, 0);
    key.blocks.counts = {3, 0, 8, 1, 30};
    Keys keys = for_all(key);
    for (size_t rank = 0; rank < keys.size(); ++rank) {
      if (key.root == Rank(static_cast<int32_t>(rank))) continue;
      for (size_t other = 0; other < keys.size(); ++other) {
        if (other != rank) keys[rank].blocks.counts[other] = 0;
      }
    }
    expect_proved(keys, limits_of());
    EXPECT_EQ(plan_hash(keys[0]), plan_hash(keys[1]));
  }
}

TEST(AllToAll, WithUnequalCountsIsProved) {
  for (int32_t ranks = 1; ranks <= 9; ++ranks) {
    const auto count = [](int32_t from, int32_t to) {
      return static_cast<uint64_t>((from * 5 + to * 3) % 4 * 4);
    };
    Keys keys = for_all(key_of(Collective::all_to_all, Algorithm::automatic, ranks, 0));
    for (int32_t rank = 0; rank < ranks; ++rank) {
      for (int32_t peer = 0; peer < ranks; ++peer) {
        keys[static_cast<size_t>(rank)].blocks.counts.push_back(count(rank, peer));
        keys[static_cast<size_t>(rank)].received.counts.push_back(count(peer, rank));
      }
    }
    expect_proved(keys, limits_of());
  }
}

// A pair without elements exchanges an empty message each way, so it finds different counts.
TEST(AllToAll, WithUnequalCountsSendsToEachRank) {
  PlanKey key = key_of(Collective::all_to_all, Algorithm::automatic, 4, 0);
  key.blocks.counts = key.received.counts = {0, 0, 0, 0};
  EXPECT_EQ(make_plan(key, Rank(1)).steps.size(), 6u);
}

uint64_t elements_sent(const RankPlan& plan) {
  uint64_t elements = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::send) elements += step.source.count;
  }
  return elements;
}

uint64_t messages_sent(const RankPlan& plan) {
  return static_cast<uint64_t>(std::ranges::count_if(
      plan.steps, [](const Step& step) { return step.kind == StepKind::send; }));
}

TEST(AllGather, MovesNoMoreThanTheOtherBlocks) {
  for (int32_t ranks = 2; ranks <= 16; ++ranks) {
    for (const Form& form : kForms) {
      if (form.collective != Collective::all_gather &&
          form.collective != Collective::reduce_scatter)
        continue;
      const RankPlan plan =
          make_plan(key_of(form.collective, form.algorithm, ranks, 1000), Rank(ranks - 1));
      EXPECT_EQ(elements_sent(plan), static_cast<uint64_t>(ranks - 1) * 1000);
    }
  }
}

// ceil(log2 p) rounds, of one message, or two where the blocks wrap around.
TEST(AllGather, OfFewBytesHasFewMessages) {
  const PlanKey key = key_of(Collective::all_gather, Algorithm::automatic, 33, 1);
  for (int32_t rank = 0; rank < 33; ++rank) {
    EXPECT_GE(messages_sent(make_plan(key, Rank(rank))), 6u);
    EXPECT_LE(messages_sent(make_plan(key, Rank(rank))), 12u);
  }
}

// To the leaders and back, and one or two runs of blocks between three leaders in each of two
// rounds.
TEST(AllGather, OfFewBytesPassesBetweenLeadersWhereRanksShareHosts) {
  PlanKey key = key_of(Collective::all_gather, Algorithm::automatic, 12, 1);
  key.hosts = hosts_of(12, 1);
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
    key.collective = collective;
    uint64_t within = 0;
    uint64_t between = 0;
    for (int32_t rank = 0; rank < 12; ++rank) {
      for (const Step& step : make_plan(key, Rank(rank)).steps) {
        if (step.kind != StepKind::send) continue;
        ++(step.peer.value() / 4 == rank / 4 ? within : between);
      }
    }
    EXPECT_EQ(within, 2u * 9u);
    EXPECT_LE(between, 3u * 3u);
  }
}

// In a ring over hosts, a host sends its NICs each other host's part once.
TEST(AllGather, LeavesAHostAsRarelyAsItCan) {
  PlanKey key = key_of(Collective::all_gather, Algorithm::ring, 12, 1000);
  key.hosts = hosts_of(12, 2);
  std::vector<uint64_t> sent(3);
  for (int32_t rank = 0; rank < 12; ++rank) {
    for (const Step& step : make_plan(key, Rank(rank)).steps) {
      if (step.kind == StepKind::send && step.peer.value() % 3 != rank % 3)
        sent[static_cast<size_t>(rank % 3)] += step.source.count;
    }
  }
  EXPECT_EQ(sent, (std::vector<uint64_t>{11'000, 11'000, 11'000}));
}

// Partial results need no memory in proportion to the vector.
TEST(Reduce, TakesABoundedScratch) {
  for (const Collective collective : {Collective::reduce, Collective::reduce_scatter}) {
    const PlanKey key = key_of(collective, Algorithm::ring, 4, uint64_t{1} << 26);
    for (int32_t rank = 0; rank < 4; ++rank) {
      EXPECT_LE(make_plan(key, Rank(rank)).scratch * sizeof(float), limits::kScratchBytes);
    }
  }
}

TEST(PlanHash, CoversTheCountsOfBlocksButNotTheirPlaces) {
  PlanKey key = key_of(Collective::all_gather, Algorithm::automatic, 3, 0);
  key.blocks.counts = {1, 2, 3};
  PlanKey other = key;
  other.blocks.starts = {5, 0, 10};
  EXPECT_EQ(plan_hash(other), plan_hash(key));
  other.blocks.counts = {2, 1, 3};
  EXPECT_NE(plan_hash(other), plan_hash(key));
}

TEST(PlanHash, OfAllToAllDoesNotCoverTheCountsOfPairs) {
  PlanKey key = key_of(Collective::all_to_all, Algorithm::automatic, 2, 0);
  key.blocks.counts = {1, 2};
  key.received.counts = {1, 3};
  PlanKey other = key;
  other.blocks.counts = {3, 7};
  EXPECT_EQ(plan_hash(other), plan_hash(key));
}

}  // namespace
}  // namespace r2ccl::blocks
