#include "runtime/connection/handshake_limiter.h"

#include <gtest/gtest.h>

#include <vector>

namespace r2ccl {
namespace {

Address host(uint8_t number) {
  return *parse_address("10.0.0." + std::to_string(number));
}

TEST(HandshakeLimiter, CountsThePlacesInUse) {
  HandshakeLimiter limiter;
  {
    HandshakeLimiter::Place first(limiter, host(1));
    HandshakeLimiter::Place second(limiter, host(1));
    EXPECT_EQ(limiter.size(), 2u);
    first.reset();
    first.reset();
    EXPECT_EQ(limiter.size(), 1u);
    const HandshakeLimiter::Place moved = std::move(second);
    EXPECT_EQ(limiter.size(), 1u);
  }
  EXPECT_EQ(limiter.size(), 0u);
}

TEST(HandshakeLimiter, TheAddressWithTheMostGivesOneUp) {
  HandshakeLimiter limiter;
  const HandshakeLimiter::Place honest(limiter, host(1));
  const HandshakeLimiter::Place first(limiter, host(2));
  EXPECT_TRUE(honest.is_of_the_largest()) << "none has more";
  EXPECT_TRUE(first.is_of_the_largest());
  const HandshakeLimiter::Place second(limiter, host(2));
  EXPECT_FALSE(honest.is_of_the_largest());
  EXPECT_TRUE(first.is_of_the_largest());
}

TEST(HandshakeLimiter, HoldsABoundedNumberAndHalfOfThemAfterAShortage) {
  HandshakeLimiter limiter;
  std::vector<HandshakeLimiter::Place> places;
  while (!limiter.too_many()) places.emplace_back(limiter, host(1));
  EXPECT_EQ(places.size(), limits::kPendingHandshakesMax + 1);
  EXPECT_TRUE(limiter.shrink(kSecond));
  while (limiter.too_many()) places.pop_back();
  EXPECT_EQ(places.size(), limits::kPendingHandshakesMax / 2);
  limiter.recover(2 * kSecond);
  places.emplace_back(limiter, host(1));
  EXPECT_TRUE(limiter.too_many()) << "a shortage that is hardly over";
  limiter.recover(10 * kSecond);
  EXPECT_FALSE(limiter.too_many());
}

TEST(HandshakeLimiter, ANetworkOfIpv6CountsAsOneAddress) {
  HandshakeLimiter limiter;
  const HandshakeLimiter::Place honest(limiter, *parse_address("2001:db8:0:1::1"));
  const HandshakeLimiter::Place first(limiter, *parse_address("2001:db8:0:2::1"));
  const HandshakeLimiter::Place second(limiter, *parse_address("2001:db8:0:2:ffff:1:2:3"));
  EXPECT_FALSE(honest.is_of_the_largest());
  EXPECT_TRUE(first.is_of_the_largest());
  EXPECT_TRUE(second.is_of_the_largest());
}

TEST(HandshakeLimiter, FollowsTheLargestAsPlacesComeAndGo) {
  HandshakeLimiter limiter;
  std::vector<HandshakeLimiter::Place> first;
  std::vector<HandshakeLimiter::Place> second;
  for (int i = 0; i < 3; ++i) first.emplace_back(limiter, host(1));
  for (int i = 0; i < 2; ++i) second.emplace_back(limiter, host(2));
  EXPECT_TRUE(first[0].is_of_the_largest());
  EXPECT_FALSE(second[0].is_of_the_largest());
  first.pop_back();
  EXPECT_TRUE(first[0].is_of_the_largest());
  EXPECT_TRUE(second[0].is_of_the_largest());
  first.clear();
  EXPECT_TRUE(second[0].is_of_the_largest());
  second.clear();
  const HandshakeLimiter::Place alone(limiter, host(3));
  EXPECT_TRUE(alone.is_of_the_largest());
}

TEST(HandshakeLimiter, PeersHavePlacesOfTheirOwn) {
  HandshakeLimiter limiter;
  limiter.reserve({host(1)});
  std::vector<HandshakeLimiter::Place> peer;
  for (size_t i = 0; i < HandshakeLimiter::kReservedPlaces; ++i)
    peer.emplace_back(limiter, host(1));
  EXPECT_EQ(limiter.size(), 0u);
  EXPECT_FALSE(peer[0].is_of_the_largest());
  const HandshakeLimiter::Place more(limiter, host(1));
  EXPECT_FALSE(more.is_reserved()) << "beyond its own places it competes as all do";
  EXPECT_EQ(limiter.size(), 1u);
  peer.pop_back();
  EXPECT_TRUE(HandshakeLimiter::Place(limiter, host(1)).is_reserved());
  limiter.reserve({host(2)});
  EXPECT_FALSE(HandshakeLimiter::Place(limiter, host(1)).is_reserved())
      << "the peer has another address now";
  EXPECT_TRUE(HandshakeLimiter::Place(limiter, host(2)).is_reserved());
}

TEST(HandshakeLimiter, AFewPendingConnectionsAreNotTheReasonForAShortage) {
  HandshakeLimiter limiter;
  const HandshakeLimiter::Place alone(limiter, host(1));
  EXPECT_FALSE(limiter.shrink(0));
  EXPECT_FALSE(limiter.too_many());
}

}  // namespace
}  // namespace r2ccl
