// Several communicators over the links of one job: their members, messages and errors, and their
// ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "sim/tests/contexts.h"

namespace r2ccl::sim {
namespace {

TEST_F(Contexts, HaveTheirOwnRanks) {
  Group& group = make(100, {3, 1, 0});
  Group& whole = make(200, {2, 0, 3, 1});
  group.begin_all();
  whole.begin_all();
  ASSERT_TRUE(within(kSoon, [&] { return group.all_ended() && whole.all_ended(); }));
  EXPECT_TRUE(group.right());
  EXPECT_TRUE(whole.right());
  EXPECT_EQ(group.rank(2).name_of(Rank(0)), "rank 0 (host h3, pid 0)");
  EXPECT_EQ(group.rank(0).members().link(Rank(1)), &link(3, 1));
}

TEST_F(Contexts, OfOneRankNeedNoLink) {
  Group& lone = make(100, {2});
  expect_works(lone);
  EXPECT_TRUE(lone.end());
}

// Its first messages and notices come before it is there. They wait, and nothing else does.
TEST_F(Contexts, WaitForARankThatMakesThemLate) {
  Group& late = make(100, {1, 0, 2}, false);
  Group& other = make(200, {0, 1, 2});
  for (const size_t rank : {0, 2}) {
    EXPECT_TRUE(late.join(rank).ok());
    late.begin(rank);
  }
  cluster_->world().run_for(30 * kSecond);  // the ranks ask each other what they wait for
  expect_works(other);
  EXPECT_FALSE(late.ended(0).has_value());
  EXPECT_TRUE(late.join(1).ok());
  late.begin(1);
  ASSERT_TRUE(within(kSoon, [&] { return late.all_ended(); }));
  EXPECT_TRUE(late.right());
}

TEST_F(Contexts, FailAlone) {
  Group& broken = make(100, {0, 1, 2});
  Group& other = make(200, {1, 2, 3});
  broken.begin(0);
  broken.rank(2).abort("enough");
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [&] { return broken.failed(0) && broken.failed(1); }));
  const std::string why = broken.rank(0).failure().message();
  EXPECT_NE(why.find("rank 2 (host h2, pid 0) aborted: enough"), std::string::npos) << why;
  EXPECT_NE(why.find("group 100"), std::string::npos) << why;
  expect_works(other);
  for (int number = 0; number < kHosts; ++number) EXPECT_TRUE(first(number).failure().ok());
  // Destroyed, at last on a rank that has not heard: new ones work over the same links.
  for (const size_t rank : {2, 0, 1}) broken.destroy(rank);
  expect_works(make(300, {2, 1, 0}));
}

TEST_F(Contexts, FailWithADeathOnlyIfTheyHaveTheRank) {
  Group& pair = make(100, {1, 0});
  Group& bereft = make(200, {3, 0});
  cluster_->world().kill(*cluster_->node(3).host);
  ASSERT_TRUE(within(5 * kSecond, [&] { return bereft.failed(1) && !first(0).failure().ok(); }));
  const std::string why = bereft.rank(1).failure().message();
  EXPECT_NE(why.find("rank 0 (host h3, pid 0) died"), std::string::npos) << why;
  EXPECT_EQ(bereft.rank(1).failure().ranks(), std::vector{Rank(0)});
  expect_works(pair);
}

TEST_F(Contexts, WithADeadRankFailAtOnce) {
  cluster_->world().kill(*cluster_->node(3).host);
  ASSERT_TRUE(within(5 * kSecond, [&] { return !first(0).failure().ok(); }));
  Group& group = make(100, {0, 3}, false);
  EXPECT_TRUE(group.join(0).ok());
  EXPECT_TRUE(group.failed(0));
  EXPECT_EQ(group.rank(0).failure().ranks(), std::vector{Rank(1)});
}

TEST_F(Contexts, EndOfMemoryIsTheEndOfAll) {
  Group& pair = make(100, {0, 1});
  Group& other = make(200, {2, 3});
  pair.rank(0).fail_by_exception(std::bad_alloc());
  cluster_->wake_all();
  EXPECT_FALSE(first(0).failure().ok());
  ASSERT_TRUE(within(kSoon, [&] { return pair.failed(1) && !first(2).failure().ok(); }));
  EXPECT_EQ(pair.rank(1).failure().ranks(), std::vector{Rank(0)});
  expect_works(other);
}

// A rank that has ended a communicator waits for the others in it, whose callers wait in another.
TEST_F(Contexts, EndInAnyOrder) {
  Group& a = make(100, {0, 1});
  Group& b = make(200, {1, 0});
  a.rank(0).set_caller_waits(true);
  a.begin_goodbye(0);
  b.rank(0).set_caller_waits(true);
  b.begin_goodbye(0);
  EXPECT_TRUE(within(kSoon, [&] { return a.rank(0).goodbye_done() && b.rank(0).goodbye_done(); }));
  a.rank(0).set_caller_waits(false);
  b.rank(0).set_caller_waits(false);
  a.begin_goodbye(1);
  b.begin_goodbye(1);
  EXPECT_TRUE(within(kSoon, [&] { return a.parted() && b.parted(); }));
}

// A small Send is complete long before its bytes have arrived.
TEST_F(Contexts, SayFarewellAfterTheLastMessage) {
  constexpr size_t kMessages = 20;
  Group& pair = make(100, {0, 1});
  const std::vector<int32_t> sent(limits::kBufferedSendBytesMax / sizeof(int32_t), 7);
  std::vector<std::vector<int32_t>> got(kMessages, std::vector<int32_t>(sent.size()));
  size_t gone = 0;
  size_t come = 0;
  for (size_t i = 0; i < kMessages; ++i) {
    pair.rank(1).start(Operation::receive(Rank(0), std::as_writable_bytes(std::span(got[i])),
                                          DataType::int32,
                                          [&](const Status& end) { come += end.ok() ? 1 : 0; }));
    pair.rank(0).start(Operation::send(Rank(1), std::as_bytes(std::span(sent)), DataType::int32,
                                       [&](const Status& end) { gone += end.ok() ? 1 : 0; }));
  }
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [&] { return gone == kMessages; }));
  ASSERT_LT(come, kMessages) << "some are on their way";
  pair.begin_goodbye(0);
  EXPECT_TRUE(within(kSoon, [&] { return come == kMessages || pair.failed(1); }));
  EXPECT_TRUE(pair.rank(1).failure().ok()) << pair.rank(1).failure().message();
  EXPECT_EQ(got, std::vector(kMessages, sent));
}

// The last one that needs a link says its goodbye, on each side another one.
TEST_F(Contexts, OutliveTheFirst) {
  Group& group = make(100, {3, 0, 1});
  for (int number = 0; number < kHosts; ++number) cluster_->node(number).begin_goodbye();
  ASSERT_TRUE(within(kSoon, [&] {
    for (int number = 0; number < kHosts; ++number) {
      if (!cluster_->node(number).goodbye_done()) return false;
    }
    return true;
  }));
  EXPECT_TRUE(link(0, 2).goodbye_done());
  EXPECT_FALSE(link(0, 1).peer_said_goodbye());
  cluster_->world().run_for(kSecond);
  expect_works(group);
  for (size_t rank = 0; rank < group.size(); ++rank) group.begin_goodbye(rank);
  EXPECT_TRUE(within(kSoon, [&] { return group.parted(); }));
  EXPECT_TRUE(link(0, 1).goodbye_done());
}

TEST_F(Contexts, ThatEndGiveTheirChannelsBack) {
  constexpr uint64_t kTimes = 2 * limits::kChannelsMax / kChannelsOfContext;
  for (uint64_t i = 0; i < kTimes; ++i) {
    Group& group = make(100 + i, {static_cast<int>(i % 3), 3});
    if (i % 16 == 0) expect_works(group, static_cast<int32_t>(i));
    ASSERT_TRUE(group.end()) << i;
  }
  cluster_->world().run_for(kSecond);
  EXPECT_TRUE(link(0, 3).has_room());
  for (int number = 0; number < kHosts; ++number) EXPECT_TRUE(first(number).failure().ok());
}

TEST_F(Contexts, AreRefusedWhenThereAreTooMany) {
  std::optional<size_t> refused;
  for (size_t i = 0; i <= limits::kContextsMax && !refused; ++i) {
    Group& group = make(100 + i, {0, 1}, false);
    const Status one = group.join(0);
    if (one.ok()) {
      EXPECT_TRUE(group.join(1).ok());
      continue;
    }
    refused = i;
    EXPECT_NE(one.message().find("communicators with another one"), std::string::npos);
    EXPECT_FALSE(group.join(1).ok());
  }
  EXPECT_TRUE(refused.has_value());
  expect_works(*groups_.front());
}

TEST_F(Contexts, OfOneNumberAreRefused) {
  Group& group = make(100, {0, 1});
  Group& again = make(100, {0, 1}, false);
  EXPECT_EQ(again.join(0).code(), Code::internal);
  expect_works(group);
}

// Each has its channels for tagged messages from the first one on.
TEST_F(Contexts, MayBeMoreThanAPeerMayBeAhead) {
  constexpr size_t kGroups = 3 * limits::kContextsUnopenedMax;
  std::vector<std::vector<int32_t>> sent(kGroups, std::vector<int32_t>(10, 7));
  std::vector<std::vector<int32_t>> got(kGroups, std::vector<int32_t>(10));
  size_t ended = 0;
  const auto done = [&](const Status& status) { ended += status.ok() ? 1 : 0; };
  for (size_t i = 0; i < kGroups; ++i) make(100 + i, {0, 1});
  for (size_t i = 0; i < kGroups; ++i) {
    const auto bytes = std::as_bytes(std::span(sent[i]));
    groups_[i]->rank(0).start(
        Operation::send(Rank(1), bytes, DataType::int32, done).with_tag(static_cast<int32_t>(i)));
  }
  cluster_->wake_all();
  cluster_->world().run_for(kSecond);
  for (size_t i = 0; i < kGroups; ++i) {
    const auto bytes = std::as_writable_bytes(std::span(got[i]));
    groups_[i]->rank(1).start(Operation::receive(Rank(0), bytes, DataType::int32, done)
                                  .with_tag(static_cast<int32_t>(i)));
  }
  cluster_->wake_all();
  EXPECT_TRUE(within(5 * kSecond, [&] { return ended == 2 * kGroups; }));
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(first(0).failure().ok()) << first(0).failure().message();
}

// Rank 0 ends the first communicator and waits in another that rank 1 makes only later. Rank 1
// waits elsewhere meanwhile, and answers the farewell.
TEST_F(Contexts, LeaveNoLinkThatThePeerStillNeeds) {
  Group& elsewhere = make(100, {1, 2});
  Group& late = make(200, {0, 1}, false);
  EXPECT_TRUE(late.join(0).ok());
  elsewhere.rank(0).set_caller_waits(true);
  first(0).begin_goodbye();
  cluster_->wake_all();
  cluster_->world().run_for(kSecond);
  EXPECT_FALSE(link(1, 0).ends());
  EXPECT_TRUE(late.join(1).ok());
  expect_works(late);
}

// A caller whose finalize has timed out destroys it: the other rank must not wait for ever.
TEST_F(Contexts, DestroyedWithoutAFarewellFail) {
  Group& group = make(100, {0, 1, 2});
  group.begin(1);
  group.begin_goodbye(0);
  group.destroy(0);
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [&] { return group.failed(1) && group.failed(2); }));
  EXPECT_EQ(group.rank(1).failure().ranks(), std::vector{Rank(0)});
  EXPECT_TRUE(first(1).failure().ok());
  expect_works(make(200, {0, 1, 2}));
}

// The rank that is refused, and what the others send to it, costs nothing that lasts.
TEST_F(Contexts, RefusedOnOneRankFailOnTheOthers) {
  for (size_t i = 0; i < limits::kContextsMax; ++i) {
    Group& group = make(100 + i, {0, 1}, false);
    if (!group.join(0).ok()) break;
    EXPECT_TRUE(group.join(1).ok());
  }
  for (size_t i = 0; i < 4 * limits::kContextsUnopenedMax; ++i) {
    Group& group = make(10'000 + i, {1, 0, 2}, false);
    EXPECT_TRUE(group.join(2).ok());
    group.begin(2);
    EXPECT_FALSE(group.join(1).ok());
    group.destroy(1);
    EXPECT_TRUE(within(kSoon, [&] { return group.failed(2); })) << i;
    EXPECT_EQ(group.rank(2).failure().ranks(), std::vector{Rank(1)});
    group.destroy(2);
  }
  cluster_->world().run_for(kSecond);
  EXPECT_TRUE(link(0, 2).has_room());
  EXPECT_TRUE(first(0).failure().ok()) << first(0).failure().message();
  expect_works(*groups_.front());
  expect_works(make(20'000, {0, 2}));
}

// The peer hears of none of them meanwhile. The memory for them has a bound.
TEST_F(Contexts, RefusedWithoutEndCostNoMoreThanTheirRoom) {
  Group& first_one = make(50, {0, 1});
  for (size_t i = 0; i < limits::kContextsMax; ++i) (void)make(100 + i, {0, 1}, false).join(0);
  for (size_t i = 0; i < 2 * limits::kChannelsMax; ++i) {
    Group& group = make(10'000 + i, {0, 1}, false);
    EXPECT_FALSE(group.join(0).ok());
    group.destroy(0);
  }
  cluster_->world().run_for(kSecond);
  EXPECT_TRUE(first(0).failure().ok()) << first(0).failure().message();
  expect_works(first_one);
}

TEST_F(Contexts, ThatOneRankNeverMakesLeaveNothing) {
  for (size_t i = 0; i < 4 * limits::kContextsUnopenedMax; ++i) {
    Group& group = make(100 + i, {0, 1, 2}, false);
    EXPECT_TRUE(group.join(0).ok() && group.join(2).ok());
    group.begin(0);
    group.begin(2);
    cluster_->world().run_for(10 * kMillisecond);
    group.rank(0).abort("nobody came");
    cluster_->wake_all();
    EXPECT_TRUE(within(kSoon, [&] { return group.failed(2); }));
    group.destroy(0);
    group.destroy(2);
  }
  for (int number = 0; number < 3; ++number) {
    EXPECT_TRUE(first(number).failure().ok()) << first(number).failure().message();
  }
  Group& late = make(100, {0, 1, 2}, false);
  EXPECT_TRUE(late.join(1).ok());
  EXPECT_TRUE(late.failed(1)) << "the others have given it up";
  expect_works(make(1'000, {0, 1, 2}));
}

TEST_F(Contexts, MadeAfterAMemberHasLeftSayThatItHas) {
  Group& late = make(100, {0, 1}, false);
  EXPECT_TRUE(late.join(0).ok());
  late.begin_goodbye(0);
  first(0).begin_goodbye();
  cluster_->wake_all();
  cluster_->world().run_for(kSecond);
  EXPECT_TRUE(late.join(1).ok());
  late.begin(1);
  ASSERT_TRUE(within(kSoon, [&] { return late.failed(1); }));
  const std::string why = late.rank(1).failure().message();
  EXPECT_NE(why.find("rank 0 (host h0, pid 0) has left"), std::string::npos) << why;
}

// NICs fail while communicators come and go.
TEST_F(Contexts, LoseNothingWithANicThatFails) {
  for (int32_t round = 0; round < 30; ++round) {
    const int from = round % kHosts;
    Group& pair = make(1'000 + static_cast<uint64_t>(round), {from, (from + 1) % kHosts});
    Group& whole = make(2'000 + static_cast<uint64_t>(round), {3, 2, 1, 0});
    pair.begin_all(round);
    whole.begin_all(round);
    SimNic& nic = cluster_->nic(from, round % 2);
    cluster_->fabric().at(cluster_->now() + 200 * kMicrosecond,
                          [this, &nic] { cluster_->fabric().set_faults(nic, {.pulled = true}); });
    cluster_->fabric().at(cluster_->now() + 60 * kMillisecond,
                          [this, &nic] { cluster_->fabric().set_faults(nic, {}); });
    ASSERT_TRUE(within(5 * kSecond, [&] { return pair.all_ended() && whole.all_ended(); }));
    EXPECT_TRUE(pair.right(round) && whole.right(round));
    ASSERT_TRUE(pair.end() && whole.end()) << round;
  }
}

}  // namespace
}  // namespace r2ccl::sim
