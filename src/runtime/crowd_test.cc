#include "runtime/crowd.h"

#include <gtest/gtest.h>

#include <vector>

namespace r2ccl {
namespace {

Address host(uint8_t number) {
  return *parse_address("10.0.0." + std::to_string(number));
}

TEST(Crowd, CountsWhoIsHere) {
  Crowd crowd;
  {
    Crowd::Place first(crowd, host(1));
    Crowd::Place second(crowd, host(1));
    EXPECT_EQ(crowd.size(), 2u);
    first.reset();
    first.reset();
    EXPECT_EQ(crowd.size(), 1u);
    const Crowd::Place moved = std::move(second);
    EXPECT_EQ(crowd.size(), 1u);
  }
  EXPECT_EQ(crowd.size(), 0u);
}

TEST(Crowd, TheAddressWithTheMostGivesOneUp) {
  Crowd crowd;
  const Crowd::Place honest(crowd, host(1));
  const Crowd::Place first(crowd, host(2));
  EXPECT_TRUE(honest.is_of_the_largest()) << "none has more";
  EXPECT_TRUE(first.is_of_the_largest());
  const Crowd::Place second(crowd, host(2));
  EXPECT_FALSE(honest.is_of_the_largest());
  EXPECT_TRUE(first.is_of_the_largest());
}

TEST(Crowd, HoldsABoundedNumberAndHalfOfThemAfterAShortage) {
  Crowd crowd;
  std::vector<Crowd::Place> places;
  while (!crowd.too_many()) places.emplace_back(crowd, host(1));
  EXPECT_EQ(places.size(), limits::kPendingHandshakesMax + 1);
  EXPECT_TRUE(crowd.shrink(kSecond));
  while (crowd.too_many()) places.pop_back();
  EXPECT_EQ(places.size(), limits::kPendingHandshakesMax / 2);
  crowd.recover(2 * kSecond);
  places.emplace_back(crowd, host(1));
  EXPECT_TRUE(crowd.too_many()) << "a shortage that is hardly over";
  crowd.recover(10 * kSecond);
  EXPECT_FALSE(crowd.too_many());
}

TEST(Crowd, AFewStrangersAreNotTheReasonForAShortage) {
  Crowd crowd;
  const Crowd::Place alone(crowd, host(1));
  EXPECT_FALSE(crowd.shrink(0));
  EXPECT_FALSE(crowd.too_many());
}

}  // namespace
}  // namespace r2ccl
