#include "runtime/connection/crowd.h"

#include <gtest/gtest.h>

#include <vector>

namespace r2ccl {
namespace {

Address host(uint8_t number) {
  return *parse_address("10.0.0." + std::to_string(number));
}

TEST(Crowd, CountsThePlacesInUse) {
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

TEST(Crowd, ANetworkOfIpv6CountsAsOneAddress) {
  Crowd crowd;
  const Crowd::Place honest(crowd, *parse_address("2001:db8:0:1::1"));
  const Crowd::Place first(crowd, *parse_address("2001:db8:0:2::1"));
  const Crowd::Place second(crowd, *parse_address("2001:db8:0:2:ffff:1:2:3"));
  EXPECT_FALSE(honest.is_of_the_largest());
  EXPECT_TRUE(first.is_of_the_largest());
  EXPECT_TRUE(second.is_of_the_largest());
}

TEST(Crowd, FollowsTheLargestAsPlacesComeAndGo) {
  Crowd crowd;
  std::vector<Crowd::Place> first;
  std::vector<Crowd::Place> second;
  for (int i = 0; i < 3; ++i) first.emplace_back(crowd, host(1));
  for (int i = 0; i < 2; ++i) second.emplace_back(crowd, host(2));
  EXPECT_TRUE(first[0].is_of_the_largest());
  EXPECT_FALSE(second[0].is_of_the_largest());
  first.pop_back();
  EXPECT_TRUE(first[0].is_of_the_largest());
  EXPECT_TRUE(second[0].is_of_the_largest());
  first.clear();
  EXPECT_TRUE(second[0].is_of_the_largest());
  second.clear();
  const Crowd::Place alone(crowd, host(3));
  EXPECT_TRUE(alone.is_of_the_largest());
}

TEST(Crowd, PeersHavePlacesOfTheirOwn) {
  Crowd crowd;
  crowd.reserve({host(1)});
  std::vector<Crowd::Place> peer;
  for (size_t i = 0; i < Crowd::kReservedPlaces; ++i) peer.emplace_back(crowd, host(1));
  EXPECT_EQ(crowd.size(), 0u);
  EXPECT_FALSE(peer[0].is_of_the_largest());
  const Crowd::Place more(crowd, host(1));
  EXPECT_FALSE(more.is_reserved()) << "beyond its own places it competes as all do";
  EXPECT_EQ(crowd.size(), 1u);
  peer.pop_back();
  EXPECT_TRUE(Crowd::Place(crowd, host(1)).is_reserved());
  crowd.reserve({host(2)});
  EXPECT_FALSE(Crowd::Place(crowd, host(1)).is_reserved()) << "the peer has another address now";
  EXPECT_TRUE(Crowd::Place(crowd, host(2)).is_reserved());
}

TEST(Crowd, AFewPendingConnectionsAreNotTheReasonForAShortage) {
  Crowd crowd;
  const Crowd::Place alone(crowd, host(1));
  EXPECT_FALSE(crowd.shrink(0));
  EXPECT_FALSE(crowd.too_many());
}

}  // namespace
}  // namespace r2ccl
