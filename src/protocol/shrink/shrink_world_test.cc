// Checks the agreement on a smaller communicator of a few ranks in every order of events that a
// small world allows, and in random orders of larger ones.
#include <gtest/gtest.h>

#include <random>

#include "protocol/shrink/shrink_world_test.h"

namespace r2ccl {
namespace {

TEST(ShrinkWorld, EveryOrderOfMessages) {
  search({{}, {}, {}}, {.timers = 1}, 100);
  search({{3}, {3}, {3}, {}}, {.calls = 1}, 100, false);
}

TEST(ShrinkWorld, RanksDieAtAnyMoment) {
  search({{}, {}, {}}, {.deaths = 1, .calls = 2}, 1000);
  search({{}, {}, {}}, {.deaths = 2, .calls = 2}, 1000);
  search({{}, {}, {}, {}}, {.deaths = 1}, 1000);
}

// A rank that takes over after the patience waits for the answers of the others all the same: one
// of them may have made the communicator.
TEST(ShrinkWorld, ARankTakesOverAfterThePatience) {
  search({{}, {}, {}}, {.deaths = 1, .calls = 2, .timers = 1, .swift = true}, 1000);
}

TEST(ShrinkWorld, ARankLeavesAtAnyMoment) {
  search({{}, {}, {}}, {.leaves = 1}, 300);
  search({{}, {}, {}}, {.deaths = 1, .calls = 2, .leaves = 1}, 1000);
}

TEST(ShrinkWorld, ACallIsWithdrawnAtAnyMoment) {
  search({{}, {}, {}}, {.deaths = 1, .calls = 2, .withdrawals = 1}, 1000);
}

TEST(ShrinkWorld, ListsThatDiffer) {
  search({{2}, {}, {}}, {.timers = 1}, 100, false);
  search({{2}, {0}, {1}}, {.timers = 1}, 50, false);
  search({{3}, {3}, {}, {2}}, {}, 50, false);
  search({{2}, {}, {}}, {.deaths = 1, .calls = 2}, 100, false);
}

// The ranks that both lists keep are told the other list; the ranks that one excludes are not in
// its way.
TEST(ShrinkWorld, TheErrorHasBothLists) {
  World world({{3}, {3}, {}, {}}, {.calls = 1});
  for (const size_t rank : {2u, 0u, 1u}) world.apply({Event::Kind::call, rank});
  world.finish(0);
  ASSERT_EQ(world.failure(), "");
  for (const size_t rank : {0u, 1u}) {
    ASSERT_TRUE(world.outcome(rank).has_value());
    EXPECT_EQ(world.outcome(rank)->outcome, ShrinkOutcome::lists_differ);
    EXPECT_EQ(world.outcome(rank)->ranks, ranks_of({2}));
    EXPECT_EQ(world.outcome(rank)->other, ranks_of({}));
  }
  EXPECT_EQ(world.outcome(2)->outcome, ShrinkOutcome::lists_differ);
  EXPECT_EQ(world.outcome(2)->other, ranks_of({3}));
}

TEST(ShrinkWorld, ARankThatNeverCallsIsNamed) {
  World world({{}, {}, {}}, {.calls = 1});
  world.apply({Event::Kind::call, 1});
  world.apply({Event::Kind::call, 2});
  world.finish(0);
  ASSERT_EQ(world.failure(), "");
  EXPECT_EQ(world.outcome(1)->outcome, ShrinkOutcome::not_called);
  EXPECT_EQ(world.outcome(1)->ranks, ranks_of({0}));
  EXPECT_GE(world.now(), kPatience);
}

TEST(ShrinkWorld, RandomOrdersOfLargerWorlds) {
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    const size_t ranks = 3 + random() % 5;
    const bool alike = random() % 4 != 0;
    Lists lists(ranks);
    for (auto& list : lists) {
      if (!alike && random() % 3 == 0) list.insert(random() % ranks);
    }
    for (size_t rank = 0; rank < ranks; ++rank) lists[rank].erase(rank);
    World world(lists, {.deaths = static_cast<int>(random() % 3),
                        .calls = 3,
                        .leaves = static_cast<int>(random() % 2),
                        .timers = static_cast<int>(random() % 4),
                        .withdrawals = static_cast<int>(random() % 2),
                        .replaces = random() % 2 == 0});
    for (int step = 0; step < 200; ++step) {
      const std::vector<Event> events = world.events();
      if (events.empty()) break;
      world.apply(events[random() % events.size()]);
    }
    world.finish(6);
    if (alike) world.expect_all_made();
    ASSERT_EQ(world.failure(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace r2ccl
