// A data connection that joins a path whose control stream is up already, against a scripted peer.
#include <gtest/gtest.h>

#include <vector>

#include "base/limits.h"
#include "runtime/link/link.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

constexpr ChannelId kChannel = ScriptedLink::kChannel;

// The link is rank 1, so its peer dials.
ConnectionIdentity identity_of(ConnectionKind kind) {
  return {kind, Rank(0), Rank(1), PathId(0), NicId(0), NicId(0)};
}

bool asks(ScriptedLink& s) {
  return !s.heard().empty() && s.heard().back().wants_data;
}

TEST(LinkJoin, APathIsUpByItsControlStreamAloneUntilThereAreMessages) {
  ScriptedLink s(1);
  s.connect_control(0);
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  EXPECT_TRUE(s.link().ready());
  s.step();
  EXPECT_FALSE(s.link().has_unsent());
  EXPECT_FALSE(s.path(0).carries());
  Bytes memory(64);
  (void)s.link().post_standing_receive(kChannel, memory);
  s.pass(limits::kDelayedAckTime);
  EXPECT_FALSE(asks(s)) << "a standing receive is no message";
}

TEST(LinkJoin, EveryFrameAsksOnceThereAreMessages) {
  Bytes memory(64);
  for (const int way : {0, 1, 2}) {
    ScriptedLink s(1);
    s.connect_control(0);
    if (way == 0) (void)s.link().post_send(kChannel, memory, 0);
    if (way == 1) (void)s.link().post_receive(kChannel, memory, 0);
    if (way == 2) s.link().expect_messages();
    s.step();
    EXPECT_TRUE(asks(s)) << way;
    s.heard().clear();
    s.pass(limits::kStateResendMax);
    EXPECT_TRUE(asks(s)) << "the peer has acknowledged nothing";
  }
}

TEST(LinkJoin, NoChunkGoesBeforeFullSizeFramesHavePassed) {
  ScriptedLink s(1);
  s.connect_control(0);
  const Bytes memory(64);
  (void)s.link().post_send(kChannel, memory, 0);
  s.step();
  s.join(0);
  s.pass(kMillisecond);
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  EXPECT_TRUE(s.path(0).proves());
  EXPECT_TRUE(s.chunks().empty());
  s.prove(0);
  s.step();
  EXPECT_EQ(s.chunks().size(), 1u);
}

// The other path answers meanwhile. A peer that is stopped answers on neither.
TEST(LinkJoin, AConnectionThatProvesNothingEndsItsPathIfThePeerIsHeard) {
  for (const bool heard : {true, false}) {
    ScriptedLink s(2);
    s.connect_control(0);
    s.connect_control(1);
    s.link().expect_messages();
    s.join(0);
    s.join(1);
    if (heard) s.prove(1);
    for (int turn = 0; turn < 300; ++turn) {
      s.pass(5 * kMillisecond);
      if (heard) s.say(1, s.state_without(0));
    }
    EXPECT_EQ(s.path(0).state.phase(), heard ? PathPhase::down : PathPhase::up);
    EXPECT_EQ(s.path(1).state.phase(), PathPhase::up);
  }
}

TEST(LinkJoin, RefusesAConnectionThatJoinsNothing) {
  const auto join = identity_of(ConnectionKind::join);
  ScriptedLink s(1);
  EXPECT_FALSE(s.link().on_hello(join, Incarnation(0)).ok());
  EXPECT_FALSE(s.link().on_hello(join, Incarnation(1)).ok());
  s.connect_control(0);
  const auto joined = s.link().on_hello(join, Incarnation(1));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined.value().join, Incarnation(1));
  EXPECT_FALSE(s.link().on_hello(join, Incarnation(0)).ok());
  EXPECT_FALSE(s.link().on_hello(join, Incarnation(2)).ok());
  s.connect_control(0);
  EXPECT_FALSE(s.link().on_hello(join, Incarnation(1)).ok()) << "that incarnation is over";
  s.connect(0);
  EXPECT_FALSE(s.link().on_hello(join, Incarnation(3)).ok()) << "it has both connections";
}

// A handshake that began earlier may end after its incarnation.
TEST(LinkJoin, AConnectionOfAnIncarnationThatIsOverIsDropped) {
  ScriptedLink s(1);
  s.connect_control(0);
  s.connect_control(0);
  s.adopt_late(0, ConnectionKind::join, 1);
  s.adopt_late(0, ConnectionKind::data, 2);
  s.step();
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  EXPECT_FALSE(s.path(0).has_data());
  s.link().check_invariants();
  s.join(0);
  EXPECT_TRUE(s.path(0).has_data());
}

// The opener gave up the data connection that waits, and opens the control stream alone.
TEST(LinkJoin, AControlStreamThatComesAloneEndsTheWaitOfAnOlderDataConnection) {
  ScriptedLink s(1);
  s.adopt_late(0, ConnectionKind::data, 1);
  EXPECT_EQ(
      s.link().on_hello(identity_of(ConnectionKind::control), Incarnation(0)).value().last_used,
      Incarnation(1));
  s.connect_control(0);
  s.link().check_invariants();
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  EXPECT_FALSE(s.path(0).has_data());
}

}  // namespace
}  // namespace r2ccl
