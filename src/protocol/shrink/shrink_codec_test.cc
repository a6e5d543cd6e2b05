#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/limits.h"
#include "protocol/shrink/shrink_agreement.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

constexpr int32_t kRanks = 4;
constexpr size_t kHosts = 3;

View example() {
  return View::of({{{500, 1000}}, {{1000, 1000}}, {{1000, 1000}}}).value();
}

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

std::vector<ShrinkMessage> examples() {
  const ShrinkWish wish{3, true, {ranks({0, 2, 3}), 7}};
  ShrinkDecision made = decision(ShrinkOutcome::made);
  made.view = example();
  ShrinkDecision differ = decision(ShrinkOutcome::lists_differ);
  differ.ranks = ranks({2});
  differ.other = ranks({3});
  ShrinkDecision died = decision(ShrinkOutcome::died);
  died.ranks = ranks({0, 2});
  return {wish,
          ShrinkWish{1, false, {}},
          ShrinkQuestion{9, true, {ranks({3}), 2}},
          ShrinkAnswer{9, {}, false, {}},
          ShrinkAnswer{9, wish, true, example()},
          made,
          differ,
          died};
}

TEST(ShrinkCodec, GivesBackWhatItTakes) {
  for (const ShrinkMessage& each : examples()) {
    const auto read = decode_shrink_message(encode(each), kRanks, kHosts);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(read.value() == each) << each.index();
  }
}

TEST(ShrinkCodec, RefusesTruncatedAndSurplusBytes) {
  for (const ShrinkMessage& each : examples()) {
    std::vector<std::byte> bytes = encode(each);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_shrink_message(std::span(bytes).first(size), kRanks, kHosts).ok());
    }
    bytes.push_back({});
    EXPECT_FALSE(decode_shrink_message(bytes, kRanks, kHosts).ok());
  }
}

TEST(ShrinkCodec, RefusesRanksThatAreUnknownOrNotInOrder) {
  const auto refused = [](std::vector<Rank> list) {
    return !decode_shrink_message(encode(ShrinkWish{1, false, {std::move(list), 0}}), kRanks,
                                  kHosts)
                .ok();
  };
  EXPECT_FALSE(refused(ranks({0, 3})));
  EXPECT_TRUE(refused(ranks({4})));
  EXPECT_TRUE(refused(ranks({2, 1})));
  EXPECT_TRUE(refused(ranks({1, 1})));
}

// Half of the ranks of a large job, a host at a time, and every other rank of a small one.
TEST(ShrinkCodec, NamesTheRanksOfWholeHostsInFewBytes) {
  std::vector<Rank> half;
  for (int32_t rank = 0; rank < 4096; ++rank) {
    if (rank / 16 % 2 == 0) half.emplace_back(rank);
  }
  ASSERT_TRUE(fits_shrink(half));
  EXPECT_LT(encode(ShrinkWish{1, false, {half, 0}}).size(), 600u);
  std::vector<Rank> scattered;
  for (int32_t rank = 0; rank < 2 * static_cast<int32_t>(kShrinkRunsMax); rank += 2) {
    scattered.emplace_back(rank);
  }
  EXPECT_TRUE(fits_shrink(scattered));
  ShrinkDecision differ = decision(ShrinkOutcome::lists_differ);
  differ.subject.excluded = differ.other = scattered;
  EXPECT_LT(encode(differ).size(), limits::kNoticeBytesMax);
  scattered.emplace_back(2 * static_cast<int32_t>(kShrinkRunsMax));
  EXPECT_FALSE(fits_shrink(scattered));
}

TEST(ShrinkCodec, SurvivesChangedBytesOfAHostileRank) {
  std::mt19937_64 random(1);
  const std::vector<ShrinkMessage> messages = examples();
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = encode(messages[random() % messages.size()]);
    for (uint64_t k = random() % 4; k > 0; --k) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    fuzz_shrink(bytes);
  }
}

}  // namespace
}  // namespace r2ccl
