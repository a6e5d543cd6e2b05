// Tests the link against a peer that sends frames, or an order of frames, that honest ranks never
// send, and against late frames of communicators that have ended. src/sim/cluster/cluster_test.cc
// and src/sim/tests/contexts_test.cc test honest ranks.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/limits.h"
#include "runtime/link/link.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

constexpr ChannelId kChannel = ScriptedLink::kChannel;

// Uses one more communicator than a peer may be ahead of this rank.
void use_too_many_channels(ScriptedLink& s, const std::function<void(ChannelId)>& use) {
  for (uint64_t c = 0; c < limits::kContextsUnopenedMax; ++c) {
    for (uint64_t place = 0; place < kChannelsOfContext; ++place) {
      use(channel_of(ContextId(1000 + c), place));
    }
  }
  s.step();
  ASSERT_EQ(s.path(0).state.phase(), PathPhase::up) << "a peer may be ahead of this rank";
  use(ChannelId(999'999));
  s.step();
}

void expect_end(ScriptedLink& s, DownCause cause, const std::string& word) {
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::down);
  ASSERT_FALSE(s.events().empty());
  EXPECT_EQ(s.events().back().cause, cause);
  EXPECT_NE(s.events().back().why.find(word), std::string::npos) << s.events().back().why;
}

void expect_protocol_error(ScriptedLink& s, const std::string& word) {
  expect_end(s, DownCause::protocol, word);
}

TEST(Link, TakesNoChunksOfAnyNumberOfChannels) {
  ScriptedLink s(1);
  s.connect(0);
  use_too_many_channels(s, [&](ChannelId channel) {
    DataHeader header = ScriptedLink::whole(channel, 0, 64);
    header.eager = true;
    s.send(0, header);
  });
  expect_protocol_error(s, "999999");
}

TEST(Link, TakesNoReportsOnAnyNumberOfChannels) {
  ScriptedLink s(1);
  s.connect(0);
  use_too_many_channels(s, [&](ChannelId channel) {
    ControlFrame frame = s.state();
    frame.channels.push_back({channel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
    s.say(0, frame);
  });
  expect_protocol_error(s, "999999");
}

// Copies of chunks, and reports, may arrive after both ends have forgotten the channels.
TEST(Link, OpensNoChannelForLateFramesOfCommunicatorsThatHaveEnded) {
  ScriptedLink s(1);
  s.connect(0);
  const size_t before = s.link().channel_count();
  for (uint64_t i = 0; i < 2 * limits::kContextsUnopenedMax; ++i) {
    const ContextId context(1000 + i);
    s.end(context);
    DataHeader late = ScriptedLink::whole(channel_of(context, 0), 0, 64);
    late.eager = true;
    s.send(0, late);
    s.step();
    ControlFrame frame = s.state();
    frame.channels.push_back(
        {channel_of(context, 1), MessageNo(0), MessageNo(0), limits::kEagerBytes, {}});
    s.say(0, frame);
    ASSERT_EQ(s.link().channel_count(), before) << i;
  }
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

// The peer learns that its messages are thrown away, whichever channel it uses first.
TEST(Link, ThrowsAwayEachChannelOfACommunicatorThatItDiscards) {
  ScriptedLink s(1);
  s.connect(0);
  const ContextId context(1000);
  s.end(context);
  s.link().discard(context);
  s.pass(10 * kMillisecond);
  s.acknowledge();
  s.say(0, s.state());
  s.heard().clear();
  DataHeader chunk = ScriptedLink::whole(channel_of(context, 1), 0, 64);
  chunk.eager = true;
  s.send(0, chunk);
  s.step();
  s.pass(10 * kMillisecond);
  ASSERT_FALSE(s.heard().empty());
  ASSERT_EQ(s.heard().back().channels.size(), 1u);
  EXPECT_EQ(s.heard().back().channels[0].channel, channel_of(context, 1));
  EXPECT_TRUE(s.heard().back().channels[0].discards);
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

TEST(Link, LosesAPathWhosePeerCountsFramesThatWereNeverSent) {
  ScriptedLink s(1);
  s.connect(0);
  ControlFrame frame = s.state();
  ++frame.paths[0].frames_received;
  s.say(0, frame);
  expect_protocol_error(s, "never sent");
}

TEST(Link, AReportOfAnotherIncarnationIsHarmless) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const Bytes bytes(64 * 1024);
  (void)s.link().post_send(kChannel, bytes, 0);
  ControlFrame frame = s.state();
  frame.channels.push_back({kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
  s.say(0, frame);
  const auto acknowledge = [&] {
    ControlFrame all = s.state();
    all.channels.push_back({kChannel, MessageNo(1), MessageNo(1), limits::kEagerBytes, {}});
    return all;
  };
  ControlFrame old = acknowledge();
  s.connect(0);
  ASSERT_GT(old.paths[0].frames_received, s.state().paths[0].frames_received);
  s.say(0, old);
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

// An attacker has recorded the bytes of the path, and puts them into its next connection.
TEST(Link, AChunkOfAnOldIncarnationEndsThePathAndTouchesNothing) {
  ScriptedLink s(2);
  for (const size_t index : {0u, 1u, 0u}) s.connect(index);
  Bytes memory(64, std::byte{0xee});
  (void)s.link().post_receive(kChannel, memory, 0);
  DataHeader old = ScriptedLink::whole(kChannel, 0, 64);
  old.incarnation = Incarnation(1);
  s.forge(0, old);
  s.step();
  expect_protocol_error(s, "another incarnation");
  EXPECT_TRUE(s.received().empty());
  EXPECT_EQ(memory, Bytes(64, std::byte{0xee}));
  EXPECT_EQ(s.path(1).state.phase(), PathPhase::up);
  s.connect(0);
  s.send(0, ScriptedLink::whole(kChannel, 0, 64));
  s.step();
  EXPECT_EQ(s.received(), std::vector<MessageNo>{MessageNo(0)});
  EXPECT_EQ(memory, Bytes(64));
}

// The peer's control stream of path 0 says that it has all of the one message. The link believes it
// only once those bytes arrive unchanged. The other path lives, and path 0 can be opened again.
void expect_control_refused(
    const std::function<Bytes(ScriptedLink&, const ControlFrame&)>& attack) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const Bytes bytes(64 * 1024);
  (void)s.link().post_send(kChannel, bytes, 0);
  s.step();
  const auto acknowledge = [&] {
    ControlFrame frame = s.state();
    frame.channels.push_back({kChannel, MessageNo(1), MessageNo(1), limits::kEagerBytes, {}});
    return frame;
  };
  s.deliver(0, attack(s, acknowledge()));
  expect_end(s, DownCause::corrupted, "on the way");
  EXPECT_TRUE(s.sent().empty());
  EXPECT_EQ(s.path(1).state.phase(), PathPhase::up);
  s.connect(0);
  s.say(0, acknowledge());
  EXPECT_EQ(s.sent(), std::vector<MessageNo>{MessageNo(0)});
}

TEST(Link, BelievesNothingOnAControlStreamInWhichABitWasChanged) {
  const size_t size = [] {
    ScriptedLink s(2);
    s.connect(0);
    return s.control_bytes(0, s.state()).size();
  }();
  for (size_t bit = 0; bit < size * 8; bit += 37) {
    expect_control_refused([bit](ScriptedLink& s, const ControlFrame& frame) {
      Bytes changed = s.control_bytes(0, frame);
      changed[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      return changed;
    });
    ASSERT_FALSE(testing::Test::HasFailure()) << "bit " << bit;
  }
}

TEST(Link, BelievesNoControlFrameThatComesBeforeItsPredecessor) {
  expect_control_refused([](ScriptedLink& s, const ControlFrame& frame) {
    (void)s.control_bytes(0, s.state());
    return s.control_bytes(0, frame);
  });
}

TEST(Link, BelievesNoControlFrameOfAnOldIncarnation) {
  expect_control_refused([](ScriptedLink& s, const ControlFrame& frame) {
    Bytes recorded = s.control_bytes(0, frame);
    s.connect(0);
    return recorded;
  });
}

TEST(Link, BelievesNoControlFrameOfAnotherPath) {
  expect_control_refused(
      [](ScriptedLink& s, const ControlFrame& frame) { return s.control_bytes(1, frame); });
}

TEST(Link, AControlFrameThatComesTwiceEndsThePath) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const Bytes recorded = s.control_bytes(0, s.state());
  s.deliver(0, recorded);
  ASSERT_EQ(s.path(0).state.phase(), PathPhase::up);
  s.deliver(0, recorded);
  expect_end(s, DownCause::corrupted, "on the way");
  EXPECT_EQ(s.path(1).state.phase(), PathPhase::up);
}

// One report completes a message and then acknowledges a message that was never sent.
TEST(Link, DeliversCompletionsFromBeforeARefusedReport) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const Bytes bytes(64 * 1024);  // too large to be copied: its source is free at its completion
  (void)s.link().post_send(kChannel, bytes, 0);
  (void)s.link().post_send(kChannel, bytes, 0);
  s.step();
  ControlFrame frame = s.state();
  frame.channels.push_back({kChannel, MessageNo(0), MessageNo(2), limits::kEagerBytes, {}});
  const auto chunks = static_cast<uint32_t>(bytes.size() / s.chunks()[0].second.chunk_bytes);
  frame.channels[0].partial.push_back({MessageNo(0), chunks, {}});
  frame.channels[0].partial.push_back({MessageNo(5), 1, {}});
  s.say(0, frame);
  expect_protocol_error(s, "never sent");
  EXPECT_EQ(s.sent(), std::vector<MessageNo>{MessageNo(0)});
  EXPECT_LT(s.heard().back().acknowledged, frame.version)
      << "a state that was not applied is not acknowledged";
}

// Every frame repeats it, and no path repairs it.
TEST(Link, ReportsAPeerThatTwiceAcknowledgesAMessageNeverSent) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const auto lie = [&](size_t path) {
    ControlFrame frame = s.state();
    frame.channels.push_back({kChannel, MessageNo(3), MessageNo(9), limits::kEagerBytes, {}});
    s.say(path, frame);
  };
  lie(0);
  EXPECT_TRUE(s.contradictions().empty()) << "the bytes of one connection may be wrong";
  lie(1);
  s.step();
  ASSERT_EQ(s.contradictions().size(), 1u);
  EXPECT_NE(s.contradictions()[0].find("below 3 of channel 1"), std::string::npos);
  s.connect(0);
  lie(0);
  s.step();
  EXPECT_EQ(s.contradictions().size(), 1u) << "once is enough";
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up) << "both ends must still be told";
}

// Someone on the way may have caused what the peer said of the first connection.
TEST(Link, BelievesNoStatementAboutAConnectionThatEndsAsCorrupted) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const auto lie = [&](size_t path) {
    ControlFrame frame = s.state();
    ++frame.paths[path].frames_received;
    s.say(path, frame);
  };
  lie(0);
  ControlFrame corrupted = s.state();
  corrupted.paths[0].phase = PathPhase::down;
  corrupted.paths[0].cause = DownCause::corrupted;
  s.say(1, corrupted);
  lie(1);
  s.step();
  EXPECT_TRUE(s.contradictions().empty());
  s.connect(0);
  lie(0);
  s.step();
  EXPECT_EQ(s.contradictions().size(), 1u) << "nobody changed the bytes of the second one";
}

TEST(Link, ReportsAPeerThatTwiceSendsAForbiddenChunk) {
  ScriptedLink s(2);
  for (const size_t path : {0u, 1u}) {
    s.connect(path);
    DataHeader header = ScriptedLink::whole(kChannel, 0, 64);  // neither posted nor eager
    s.send(path, header);
    s.step();
  }
  s.step();
  ASSERT_EQ(s.contradictions().size(), 1u);
  EXPECT_NE(s.contradictions()[0].find("message 0 of channel 1"), std::string::npos);
}

}  // namespace
}  // namespace r2ccl
