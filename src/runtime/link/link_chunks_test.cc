// The chunks of a link: the NIC by which they go, those that stay for the reader to fetch, and the
// packets of them that count as lost.
#include <gtest/gtest.h>

#include <vector>

#include "base/limits.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

struct Load {
  size_t bytes = 0;
  bool others = false;      // another link of the rank sends
  bool reads = false;       // another link of the rank receives
  bool receives = false;    // the link also receives
  bool neighbours = false;  // this host has a third rank
};

// Returns whether the first chunk of the message stays where it is.
bool stays_in_place(const Load& load) {
  ScriptedLink s(1);
  s.connect(0);
  s.data(0).let_stay();
  ControlFrame permit = s.state();
  permit.channels.push_back(
      {ScriptedLink::kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
  s.say(0, permit);
  BusyLinks::Part other(s.busy_links(), load.neighbours);
  other.set_sends(load.others);
  other.set_receives(load.reads);
  std::vector<std::byte> place(100'000);
  if (load.receives) (void)s.link().post_receive(ScriptedLink::kChannel, place, 0);
  const std::vector<std::byte> message(load.bytes);
  (void)s.link().post_send(ScriptedLink::kChannel, message, 0);
  s.step();
  EXPECT_FALSE(s.chunks().empty());
  return s.data(0).sends() > 0;
}

TEST(LinkInPlace, ChunksStayInPlaceUnlessALongStreamIsAllThatTheRankHasToDo) {
  constexpr size_t kShort = 400'000;
  constexpr size_t kLong = 2'000'000;
  EXPECT_TRUE(stays_in_place({.bytes = kShort}));
  EXPECT_FALSE(stays_in_place({.bytes = kLong}));
  EXPECT_TRUE(stays_in_place({.bytes = kLong, .others = true}));
  EXPECT_TRUE(stays_in_place({.bytes = kLong, .receives = true}));
  EXPECT_TRUE(stays_in_place({.bytes = kLong, .reads = true, .neighbours = true}));
  EXPECT_FALSE(stays_in_place({.bytes = kShort, .neighbours = true}));
}

TEST(LinkInPlace, TheFirstMessageOfALinkThroughMemoryHasLargeChunks) {
  for (const bool in_memory : {false, true}) {
    ScriptedLink s(1, in_memory);
    s.connect(0);
    ControlFrame permit = s.state();
    permit.channels.push_back(
        {ScriptedLink::kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
    s.say(0, permit);
    const std::vector<std::byte> message(limits::kEagerBytes);
    (void)s.link().post_send(ScriptedLink::kChannel, message, 0);
    s.step();
    ASSERT_FALSE(s.chunks().empty());
    EXPECT_EQ(s.chunks().front().second.payload_bytes == message.size(), in_memory);
  }
}

TEST(LinkChunks, AChannelSendsByTheNicThatItPrefersFirst) {
  for (uint16_t nic = 0; nic < 3; ++nic) {
    ScriptedLink s(3);
    for (size_t path = 0; path < 3; ++path) s.connect(path);
    s.chunks().clear();
    s.link().prefer_nic(ScriptedLink::kChannel, NicId(nic));
    const std::vector<std::byte> memory(1024);
    (void)s.link().post_send(ScriptedLink::kChannel, memory, 0);
    s.step();
    ASSERT_EQ(s.chunks().size(), 1u);
    EXPECT_EQ(s.chunks()[0].first, nic);
  }
}

// Packets that the peer had already are no losses (RFC 2883).
TEST(LinkChunks, ASpuriousRetransmissionIsNoLoss) {
  ScriptedLink s(1);
  s.connect(0);
  const std::vector<std::byte> memory(1024);
  (void)s.link().post_send(ScriptedLink::kChannel, memory, 0);
  s.step();
  s.data(0).count_packets({.sent = 100, .retransmitted = 10, .spurious = 4, .delivered = 90});
  Path& path = *s.link().paths()[0];
  path.sample_losses(10 * kSecond);
  EXPECT_EQ(path.losses().lost(), 6u);
}

}  // namespace
}  // namespace r2ccl
