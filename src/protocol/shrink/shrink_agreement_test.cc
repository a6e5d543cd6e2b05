#include "protocol/shrink/shrink_agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

constexpr int32_t kRanks = 4;

std::vector<Rank> ranks(std::initializer_list<int32_t> numbers) {
  std::vector<Rank> all;
  for (const int32_t number : numbers) all.emplace_back(number);
  return all;
}

ShrinkDecision decision(ShrinkOutcome outcome) {
  ShrinkDecision made;
  made.serial = 2;
  made.subject = {ranks({1, 3}), 1};
  made.by = Rank(2);
  made.outcome = outcome;
  return made;
}

TEST(ShrinkAgreement, RefusesMessagesThatNoCorrectRankSends) {
  ShrinkAgreement agreement(Rank(0), kRanks, kSecond);
  const auto refuses = [&](const ShrinkMessage& message) {
    return !agreement.on_message(Rank(1), message, 0).ok();
  };
  EXPECT_TRUE(refuses(ShrinkWish{0, false, {}}));               // no call
  EXPECT_TRUE(refuses(ShrinkWish{1, false, {ranks({1}), 0}}));  // without its sender
  EXPECT_TRUE(refuses(ShrinkWish{1, false, {ranks({0}), 0}}));  // without its receiver
  EXPECT_TRUE(refuses(ShrinkAnswer{5, {}, false, {}}));         // nobody asked
  ShrinkDecision news = decision(ShrinkOutcome::made);          // its sender is excluded
  EXPECT_TRUE(refuses(news));
  news.subject.excluded = ranks({0, 2});  // this rank is excluded, and has called
  EXPECT_TRUE(refuses(news));
  news.serial = 0;
  EXPECT_FALSE(refuses(news));
  EXPECT_EQ(agreement.excluded_by(), ranks({1, 3}));
}

// A coordinator that is stopped may decide later.
TEST(ShrinkAgreement, GivesUpACoordinatorThatDoesNotAnswer) {
  ShrinkAgreement agreement(Rank(1), kRanks, kSecond);
  agreement.call({Rank(3)}, {}, 0);
  agreement.take_sends();
  TimeNs now = agreement.next_timeout();
  EXPECT_GT(now, kSecond);
  agreement.progress(now);
  const auto sends = agreement.take_sends();
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_TRUE(std::get<ShrinkWish>(sends[0].message).withdrawn);
  EXPECT_FALSE(agreement.outcome().has_value());
  agreement.progress(agreement.next_timeout());
  ASSERT_TRUE(agreement.outcome().has_value());
  EXPECT_EQ(agreement.outcome()->outcome, ShrinkOutcome::not_called);
  EXPECT_EQ(agreement.outcome()->ranks, ranks({0}));
  EXPECT_EQ(agreement.next_timeout(), kNever);
  ShrinkDecision late;
  late.serial = 1;
  late.subject = {ranks({3}), 0};
  EXPECT_TRUE(agreement.on_message(Rank(0), late, now + 60 * kSecond).ok());
  EXPECT_EQ(agreement.take_ghosts(), std::vector{late.subject});
  EXPECT_TRUE(agreement.take_ghosts().empty());
}

// The coordinator has died, and this rank does not see that. Another rank does, which takes this
// one for the coordinator.
TEST(ShrinkAgreement, GivesUpACoordinatorThatAnotherRankPassesOver) {
  constexpr TimeNs kLong = 300 * kSecond;
  ShrinkAgreement agreement(Rank(1), kRanks, kLong);
  agreement.call({Rank(3)}, {}, 0);
  const TimeNs told = 20 * kSecond;
  const ShrinkWish theirs{1, false, {ranks({3}), 0}};
  EXPECT_TRUE(agreement.on_message(Rank(2), theirs, told).ok());
  agreement.take_sends();
  agreement.progress(agreement.next_timeout());
  const auto withdrawn = agreement.take_sends();
  ASSERT_EQ(withdrawn.size(), 1u);
  EXPECT_EQ(withdrawn[0].to, Rank(0));
  const TimeNs end = agreement.next_timeout();
  EXPECT_LE(end, told + 30 * kSecond);
  agreement.progress(end);
  ASSERT_TRUE(agreement.outcome().has_value());
  EXPECT_EQ(agreement.outcome()->outcome, ShrinkOutcome::cut_off);
  EXPECT_EQ(agreement.outcome()->ranks, ranks({0}));
  const auto sends = agreement.take_sends();
  ASSERT_FALSE(sends.empty());
  EXPECT_TRUE(std::ranges::any_of(sends, [](const ShrinkSend& each) {
    const auto* decision = std::get_if<ShrinkDecision>(&each.message);
    return each.to == Rank(2) && decision != nullptr && decision->outcome == ShrinkOutcome::cut_off;
  }));
}

// A rank that has not made the parent answers nothing.
TEST(ShrinkAgreement, DecidesWithoutAnAnswerToATakeover) {
  ShrinkAgreement agreement(Rank(1), kRanks, kSecond);
  agreement.call({}, {}, 0);
  agreement.on_gone(Rank(0), ShrinkOutcome::died, 0);
  EXPECT_TRUE(agreement.on_message(Rank(2), ShrinkAnswer{1, {}, false, {}}, 0).ok());
  EXPECT_FALSE(agreement.outcome().has_value());
  agreement.progress(agreement.next_timeout());
  ASSERT_TRUE(agreement.outcome().has_value());
  EXPECT_EQ(agreement.outcome()->outcome, ShrinkOutcome::not_called);
  EXPECT_EQ(agreement.outcome()->ranks, ranks({3}));
}

// The questions of a faulty rank take no memory beyond a bound.
TEST(ShrinkAgreement, KeepsABoundedNumberOfPromises) {
  ShrinkPromises promises;
  for (uint32_t ordinal = 0; ordinal < 1000; ++ordinal) promises.add({{}, ordinal}, Rank(2));
  EXPECT_EQ(promises.all().size(), ShrinkPromises::kMaxOfOne);
  ShrinkDecision late = decision(ShrinkOutcome::made);
  late.subject = {{}, 999};
  late.by = Rank(1);
  EXPECT_FALSE(promises.permit(late));
  late.by = Rank(2);
  EXPECT_TRUE(promises.permit(late));
}

// One message to the coordinator and one back, for each rank, and three more where it dies.
TEST(ShrinkAgreement, ALargeJobNeedsFewMessages) {
  constexpr int32_t kMany = 1024;
  for (const bool dies : {false, true}) {
    std::vector<ShrinkAgreement> agents;
    std::deque<std::pair<Rank, ShrinkSend>> network;
    size_t messages = 0;
    const auto collect = [&](size_t rank) {
      for (ShrinkSend& send : agents[rank].take_sends()) {
        network.emplace_back(Rank(static_cast<int32_t>(rank)), std::move(send));
      }
    };
    const auto deliver_all = [&](bool silent) {
      for (; !network.empty(); network.pop_front()) {
        const auto& [from, send] = network.front();
        ++messages;
        if (silent) continue;
        const auto to = static_cast<size_t>(send.to.value());
        EXPECT_TRUE(agents[to].on_message(from, send.message, 0).ok());
        collect(to);
      }
    };
    for (int32_t rank = 0; rank < kMany; ++rank) {
      agents.emplace_back(Rank(rank), kMany, kSecond);
      if (rank == 7) continue;
      agents.back().call({Rank(7)}, {}, 0);
      collect(static_cast<size_t>(rank));
    }
    deliver_all(dies);
    for (size_t rank = 1; dies && rank < kMany; ++rank) {
      agents[rank].on_gone(Rank(0), ShrinkOutcome::died, 0);
      collect(rank);
    }
    deliver_all(false);
    EXPECT_LE(messages, (dies ? 5 : 2) * size_t{kMany});
    for (size_t rank = dies ? 1 : 0; rank < kMany; ++rank) {
      if (rank == 7) continue;
      ASSERT_TRUE(agents[rank].outcome().has_value()) << rank;
      EXPECT_EQ(agents[rank].outcome()->outcome, dies ? ShrinkOutcome::died : ShrinkOutcome::made);
    }
  }
}

}  // namespace
}  // namespace r2ccl
