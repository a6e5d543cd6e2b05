#include "runtime/peers/link_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace r2ccl {
namespace {

std::vector<size_t> take_all(LinkSchedule& schedule) {
  std::vector<size_t> taken;
  for (size_t from = 0;;) {
    const auto link = schedule.take_marked(from);
    if (!link) return taken;
    taken.push_back(*link);
    from = *link + 1;
  }
}

TEST(LinkSchedule, GivesMarkedLinksInTheirOrderAndOnce) {
  LinkSchedule schedule(200);
  for (const size_t link : {130U, 0U, 199U, 63U, 64U, 130U}) schedule.mark(link);
  EXPECT_TRUE(schedule.is_marked(130));
  EXPECT_FALSE(schedule.is_marked(131));
  EXPECT_EQ(take_all(schedule), (std::vector<size_t>{0, 63, 64, 130, 199}));
  EXPECT_FALSE(schedule.any_marked());
}

TEST(LinkSchedule, LeavesALinkBelowTheStartForTheNextRound) {
  LinkSchedule schedule(3);
  schedule.mark(0);
  EXPECT_FALSE(schedule.take_marked(1).has_value());
  EXPECT_TRUE(schedule.any_marked());
  EXPECT_EQ(take_all(schedule), (std::vector<size_t>{0}));
}

// A pass takes the links while these mark each other.
TEST(LinkSchedule, ALinkMarkedInTheMiddleOfARoundHasItsTurnInItOnlyAhead) {
  LinkSchedule schedule(130);
  schedule.mark(64);
  EXPECT_EQ(schedule.take_marked(0), 64U);
  for (const size_t link : {64U, 129U, 3U}) schedule.mark(link);
  EXPECT_EQ(schedule.take_marked(65), 129U);
  EXPECT_FALSE(schedule.take_marked(130).has_value());
  EXPECT_EQ(take_all(schedule), (std::vector<size_t>{3, 64}));
}

TEST(LinkSchedule, ARoundEndsAtTheLastLinkWhereAWordIsFull) {
  LinkSchedule schedule(64);
  schedule.mark(0);
  schedule.mark(63);
  EXPECT_EQ(schedule.take_marked(1), 63U);
  EXPECT_FALSE(schedule.take_marked(64).has_value());
  EXPECT_TRUE(schedule.any_marked());
}

TEST(LinkSchedule, ALinkWithAMarkAndADueDeadlineHasOneTurn) {
  LinkSchedule schedule(3);
  schedule.mark(1);
  schedule.set_deadline(1, 5);
  schedule.mark_due(4);
  schedule.mark_due(5);
  EXPECT_EQ(take_all(schedule), (std::vector<size_t>{1}));
  EXPECT_FALSE(schedule.any_marked());
  schedule.mark_due(5);
  EXPECT_TRUE(schedule.is_marked(1)) << "the deadline stays until the link has another one";
}

TEST(LinkSchedule, HasNoDeadlineAtFirst) {
  EXPECT_EQ(LinkSchedule(5).next_deadline(), kNever);
  EXPECT_EQ(LinkSchedule(0).next_deadline(), kNever);
}

TEST(LinkSchedule, GivesTheEarliestDeadlineWhateverChanges) {
  std::mt19937 random(7);
  for (const size_t links : {1U, 2U, 7U, 64U, 100U}) {
    LinkSchedule schedule(links);
    std::vector<TimeNs> deadlines(links, kNever);
    for (int step = 0; step < 500; ++step) {
      const size_t link = random() % links;
      deadlines[link] = random() % 4 == 0 ? kNever : static_cast<TimeNs>(random() % 1000);
      schedule.set_deadline(link, deadlines[link]);
      schedule.check_invariants();
      ASSERT_EQ(schedule.next_deadline(), *std::ranges::min_element(deadlines));
    }
    const TimeNs now = 500;
    schedule.mark_due(now);
    for (size_t link = 0; link < links; ++link) {
      EXPECT_EQ(schedule.is_marked(link), deadlines[link] <= now) << link << " of " << links;
      EXPECT_EQ(schedule.deadline(link), deadlines[link]);
    }
  }
}

}  // namespace
}  // namespace r2ccl
