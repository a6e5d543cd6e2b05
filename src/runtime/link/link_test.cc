// Tests the link against a scripted peer, in orders of events that are rare.
// src/sim/cluster/cluster_test.cc tests whole ranks.
#include "runtime/link/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <string>

#include "base/limits.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

constexpr ChannelId kChannel = ScriptedLink::kChannel;

// Opens many channels with many accepted messages behind the first, which is missing. Every second
// chunk is missing too, so that each message needs a bitmap.
TEST(Link, ReportsInTurnsTheStateThatOneFrameCannotHold) {
  constexpr uint32_t kChannels = 3;
  constexpr uint64_t kMessages = 400;
  constexpr uint32_t kChunks = 512;
  constexpr uint64_t kBytes = kChunks * 64;
  ScriptedLink s(1);
  s.connect(0);
  struct Ignore final : MessageClient {
    void on_sent(Rank, ChannelId, MessageNo) override {}
    void on_received(Rank, ChannelId, MessageNo, uint64_t) override {}
    void on_mismatch(Rank, ChannelId, const Status&) override {}
  } ignore;
  Bytes memory(kBytes);
  std::set<std::pair<ChannelId, MessageNo>> untold;
  for (uint32_t c = 0; c < kChannels; ++c) {
    const ChannelId channel(100 + c);
    s.link().open_channel(channel, ignore, Rank(0));
    for (uint64_t m = 0; m < kMessages; ++m) (void)s.link().post_receive(channel, memory, 0);
    for (uint64_t m = 1; m < kMessages; ++m) {
      DataHeader header = ScriptedLink::whole(channel, m, 64);
      header.message_bytes = kBytes;
      header.offset = kBytes - 64;
      s.send(0, header);
      untold.emplace(channel, MessageNo(m));
    }
  }
  s.heard().clear();
  s.step();
  s.pass(limits::kDelayedAckTime);
  for (int turn = 0; turn < 20 && !untold.empty(); ++turn) {
    ASSERT_FALSE(s.heard().empty());
    const ControlFrame& frame = s.heard().back();
    EXPECT_LE(encoded_body_bytes(frame), limits::kControlBodyBytesMax);
    for (const ChannelReport& report : frame.channels) {
      for (const PartialMessage& partial : report.partial) {
        EXPECT_EQ(partial.bitmap.size(), kChunks / 8);
        untold.erase({report.channel, partial.message});
      }
    }
    s.acknowledge();
    s.heard().clear();
    s.say(0, s.state());
  }
  EXPECT_TRUE(untold.empty()) << untold.size();
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

// The chunk size holds for the whole message. A link that cut without a path would have to take the
// smallest one, and each chunk has its price.
TEST(Link, AMessageThatWaitsForAPathIsCutForThatPath) {
  constexpr uint64_t kBytes = 1024 * 1024;
  ScriptedLink s(1);
  const Bytes memory(kBytes);
  (void)s.link().post_send(kChannel, memory, 0);
  for (int turn = 0; turn < 3; ++turn) s.pass(kMillisecond);
  EXPECT_EQ(s.link().paths()[0]->state.phase(), PathPhase::down);
  s.connect(0);
  s.pass(kMillisecond);
  ASSERT_FALSE(s.chunks().empty());
  EXPECT_GT(s.chunks().front().second.chunk_bytes, 4 * limits::kChunkBytesMin);
}

// The link probes a suspect path by connects, and these may fail at once. The client only waits for
// the end of its sends, so the link copies the unacknowledged bytes, also the part of a frame that
// could not be written yet.
TEST(Link, AReleasedSendCompletesBeforeItIsAcknowledged) {
  ScriptedLink s(1);
  s.connect(0);
  ControlFrame permit = s.state();
  permit.channels.push_back({kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
  s.say(0, permit);
  auto memory = std::make_unique<Bytes>(40'000);
  (void)s.link().post_send(kChannel, *memory, 0);
  s.block(0);
  s.step();
  EXPECT_TRUE(s.sent().empty());
  s.link().release_send_buffers(kChannel);
  s.step();
  s.step();
  EXPECT_EQ(s.sent(), std::vector<MessageNo>{MessageNo(0)});
  memory.reset();  // the sanitizer finds any read of it from here on
  s.unblock(0);
  for (int turn = 0; turn < 5; ++turn) s.step();
  uint64_t arrived = 0;
  for (const auto& [path, header] : s.chunks()) arrived += header.payload_bytes;
  EXPECT_EQ(arrived, 40'000u);
}

// Otherwise a sender of small messages, whose receiver posts each receive late, waits for the
// delayed acknowledgement with each filling of the pool.
TEST(Link, RoomInTheEagerPoolIsGivenBackBeforeTheSenderHasFilledTheRest) {
  constexpr uint32_t kPart = 16 * 1024;
  constexpr uint64_t kMessages = limits::kDelayedAckBytes / kPart;
  static_assert(kPart <= limits::kBufferedSendBytesMax);
  ScriptedLink s(1);
  s.connect(0);
  for (uint64_t m = 0; m < kMessages; ++m) {
    DataHeader header = ScriptedLink::whole(kChannel, m, kPart);
    header.eager = true;
    s.send(0, header);
  }
  for (int turn = 0; turn < 3; ++turn) s.pass(limits::kDelayedAckTime);
  s.heard().clear();
  Bytes memory(kPart);
  for (uint64_t m = 0; m < kMessages; ++m) {
    EXPECT_TRUE(s.heard().empty()) << "a single message is no hurry";
    (void)s.link().post_receive(kChannel, memory, 0);
    s.step();
  }
  ASSERT_EQ(s.heard().size(), 1u);
  ASSERT_EQ(s.heard()[0].channels.size(), 1u);
  EXPECT_EQ(s.heard()[0].channels[0].eager_total, limits::kEagerBytes + limits::kDelayedAckBytes);
}

TEST(Link, WithoutADescriptorForAProbeItDoesNotSpin) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const ControlFrame before = s.state();
  const Bytes bytes(4096);
  (void)s.link().post_send(kChannel, bytes, 0);
  for (int ms = 0; ms < 50 && s.path(0).state.phase() == PathPhase::up; ++ms) {
    ControlFrame silent = s.state();
    silent.paths = before.paths;
    s.pass(kMillisecond);
    s.say(1, silent);
  }
  ASSERT_EQ(s.path(0).state.phase(), PathPhase::suspect);
  ASSERT_GT(s.connects(), 0) << "it wants to know whether the peer's kernel answers";
  const int connects = s.connects();
  for (int pass = 0; pass < 1000; ++pass) s.step();
  EXPECT_LE(s.connects(), connects + 1) << "no time has passed";
}

TEST(Link, MemoryThatCannotBeReadIsTheHostsBusinessAndNoPathsFault) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const Bytes bytes(limits::kBufferedSendBytesMax + 1);
  for (size_t path : {0, 1}) s.data(path).fail_writes(EFAULT);
  (void)s.link().post_send(kChannel, bytes, 0);
  s.step();
  s.step();
  ASSERT_FALSE(s.bad_memory().empty());
  EXPECT_EQ(s.bad_memory()[0].access, Access::read);
  EXPECT_GE(s.bad_memory()[0].at, bytes.data());
  EXPECT_LT(s.bad_memory()[0].at, bytes.data() + bytes.size());
  for (size_t path : {0, 1}) EXPECT_EQ(s.path(path).state.phase(), PathPhase::up);
}

TEST(Link, MemoryThatCannotBeWrittenIsTheHostsBusinessAndNoPathsFault) {
  ScriptedLink s(1);
  s.connect(0);
  Bytes bytes(4096);
  (void)s.link().post_receive(kChannel, bytes, 0);
  // The header has arrived. The link refuses the next bytes.
  DataHeader header = ScriptedLink::whole(kChannel, 0, 4096);
  s.send_header(0, header);
  s.step();
  s.data(0).refuse_reads(EFAULT);
  s.step();
  s.step();
  ASSERT_FALSE(s.bad_memory().empty());
  EXPECT_EQ(s.bad_memory()[0].access, Access::write);
  EXPECT_EQ(s.bad_memory()[0].at, bytes.data());
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  s.link().cancel_channel(kChannel);
  s.data(0).refuse_reads(0);
  s.step();
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

TEST(Link, AShortageOfKernelMemoryPausesAPathAndBreaksNothing) {
  for (const int error : {ENOMEM, ENOBUFS}) {
    ScriptedLink s(2);
    s.connect(0);
    s.connect(1);
    const Bytes bytes(limits::kBufferedSendBytesMax + 1);
    for (size_t path : {0, 1}) s.data(path).fail_writes(error);
    (void)s.link().post_send(kChannel, bytes, 0);
    s.step();
    EXPECT_TRUE(s.path(0).paused() || s.path(1).paused());
    const size_t reads = s.data(0).reads();
    for (int pass = 0; pass < 100; ++pass) s.step();
    if (s.path(0).paused()) {
      EXPECT_EQ(s.data(0).reads(), reads) << "no time has passed";
    }
    for (int ms = 0; ms < 300; ++ms) s.pass(kMillisecond);
    EXPECT_TRUE(s.chunks().empty());
    for (size_t path : {0, 1}) s.data(path).fail_writes(0);
    s.pass(limits::kShortagePause);
    s.pass(limits::kShortagePause);
    EXPECT_FALSE(s.chunks().empty()) << "the refused chunk goes out";
    EXPECT_EQ(s.bad_memory().size(), 0U);
    for (size_t path : {0, 1}) EXPECT_EQ(s.path(path).state.phase(), PathPhase::up);
  }
}

constexpr uint64_t kMessages = 60;

// Makes path 0 suspect. Its chunks wait for room on path 1, which is blocked. Returns the number of
// chunks sent.
size_t suspect_and_block(ScriptedLink& s, ControlFrame& before) {
  s.connect(0);
  s.connect(1);
  s.block(1);
  before = s.state();
  static const Bytes bytes(4096);  // one chunk each
  for (uint64_t m = 0; m < kMessages; ++m) (void)s.link().post_send(kChannel, bytes, 0);
  s.step();
  for (int ms = 0; ms < 50 && s.path(0).state.phase() == PathPhase::up; ++ms) {
    ControlFrame silent = s.state();
    silent.paths = before.paths;  // no chunk sent since has arrived
    s.pass(kMillisecond);
    s.say(1, silent);
  }
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::suspect);
  EXPECT_LT(s.chunks().size(), kMessages) << "something must be left to send";
  return s.chunks().size();
}

// Some chunks arrive, so that path 0 has room; and it turns out that this rank had not run.
void trust_again(ScriptedLink& s, const ControlFrame& before) {
  ControlFrame frame = s.state();
  frame.paths.resize(1);
  frame.paths[0].frames_received = before.paths[0].frames_received + 8;
  ChannelReport report{kChannel, MessageNo(0), MessageNo(0), limits::kEagerBytes, {}};
  for (size_t i = 0; i < 8; ++i) report.partial.push_back({s.chunks()[i].second.message, 1, {}});
  frame.channels.push_back(report);
  s.pass(kMillisecond, kSecond);
  s.say(0, frame);
  s.step();
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

size_t messages_sent(ScriptedLink& s) {
  std::set<MessageNo> messages;
  for (const auto& [path, header] : s.chunks()) messages.insert(header.message);
  return messages.size();
}

// Path 1 goes down, and path 0 is trusted again while most of the chunks are still outstanding on
// it.
TEST(Link, AHedgeWithoutAnotherPathHoldsUpNoChunk) {
  ScriptedLink s(2);
  ControlFrame before;
  const size_t sent_so_far = suspect_and_block(s, before);
  s.link().on_nic_change(NicId(1), false, DownCause::carrier_lost);
  trust_again(s, before);
  EXPECT_GT(messages_sent(s), sent_so_far + 1) << "new chunks, besides the lost ones of path 1";
}

// The same, but path 1 stays: chunks that are outstanding on path 0 wait for it, and path 0 is
// free.
TEST(Link, AHedgeThatWaitsForAPathHoldsUpNoNewChunk) {
  ScriptedLink s(2);
  ControlFrame before;
  const size_t sent_so_far = suspect_and_block(s, before);
  trust_again(s, before);
  EXPECT_GT(messages_sent(s), sent_so_far) << "fresh chunks go on path 0";
  for (size_t i = sent_so_far; i < s.chunks().size(); ++i) EXPECT_EQ(s.chunks()[i].first, 0u);
  // Chunks that wait for path 1 come before all new chunks.
  const size_t sent = s.chunks().size();
  const size_t messages = messages_sent(s);
  s.unblock(1);
  s.step();
  ASSERT_GT(s.chunks().size(), sent);
  const auto first_on_1 =
      std::ranges::find_if(s.chunks().begin() + static_cast<ptrdiff_t>(sent), s.chunks().end(),
                           [](const auto& chunk) { return chunk.first == 1; });
  ASSERT_NE(first_on_1, s.chunks().end());
  EXPECT_LT(first_on_1->second.message.value(), messages) << "it was sent on path 0 before";
}

// Sends a message of one chunk, for which the peer gave credit. `path` has taken it to the peer, as
// far as its count of frames says.
void deliver_a_chunk(ScriptedLink& s, const Bytes& bytes) {
  ControlFrame permit = s.state();
  permit.channels.push_back({kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
  s.say(0, permit);
  (void)s.link().post_send(kChannel, bytes, 0);
  s.step();
  ASSERT_EQ(s.chunks().size(), 1u);
}

TEST(Link, RetransmitsAChunkThatItsPathCountsAndThePeerDoesNotList) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  const Bytes bytes(4000);
  deliver_a_chunk(s, bytes);
  const size_t first = s.chunks()[0].first;
  s.say(1 - first, s.state());
  EXPECT_EQ(s.path(first).state.phase(), PathPhase::down);
  EXPECT_EQ(s.events().back().cause, DownCause::protocol);
  ASSERT_EQ(s.chunks().size(), 2u);
  EXPECT_EQ(s.chunks()[1].first, 1 - first);
  EXPECT_EQ(s.chunks()[1].second.message, s.chunks()[0].second.message);
  EXPECT_TRUE(s.contradictions().empty());
  ControlFrame done = s.state();
  done.channels.push_back({kChannel, MessageNo(1), MessageNo(1), limits::kEagerBytes, {}});
  s.say(1 - first, done);
  EXPECT_EQ(s.path(1 - first).state.phase(), PathPhase::up);
  s.step();
  EXPECT_TRUE(s.contradictions().empty());
}

TEST(Link, SaysThatAChunkIsLostWhenTwoConnectionsLoseIt) {
  for (const size_t paths : {size_t{1}, size_t{2}}) {
    ScriptedLink s(paths);
    for (size_t i = 0; i < paths; ++i) s.connect(i);
    const Bytes bytes(4000);
    deliver_a_chunk(s, bytes);
    const size_t first = s.chunks()[0].first;
    s.say(paths == 1 ? 0 : 1 - first, s.state());
    ASSERT_EQ(s.path(first).state.phase(), PathPhase::down);
    if (paths == 1) s.connect(0);
    s.step();
    ASSERT_EQ(s.chunks().size(), 2u);
    s.say(s.chunks()[1].first, s.state());
    s.step();
    ASSERT_EQ(s.contradictions().size(), 1u) << paths;
    EXPECT_NE(s.contradictions()[0].find("chunk 0 of message 0 of channel 1"), std::string::npos)
        << s.contradictions()[0];
  }
}

// The missing chunk may be one that did not fit into the frame.
TEST(Link, BelievesOfAFrameThatHeldNotAllNothingThatItDoesNotList) {
  ScriptedLink s(1);
  s.connect(0);
  const Bytes bytes(4000);
  deliver_a_chunk(s, bytes);
  ControlFrame part = s.state();
  part.counted = part.version + 5;
  s.say(0, part);
  EXPECT_EQ(s.chunks().size(), 1u);
  ControlFrame older = s.state();  // complete, but made earlier
  s.say(0, older);
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  EXPECT_EQ(s.chunks().size(), 1u);
  while (s.state().version < part.counted) {
  }
  s.say(0, s.state());
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::down);
}

TEST(Link, MissesNoChunkThatThePeerThrowsAway) {
  ScriptedLink s(1);
  s.connect(0);
  const Bytes bytes(4000);
  deliver_a_chunk(s, bytes);
  ControlFrame frame = s.state();
  frame.channels.push_back({kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}, true});
  s.say(0, frame);
  s.step();
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  EXPECT_EQ(s.chunks().size(), 1u);
}

TEST(Link, TellsThePeerThatItThrowsChunksAway) {
  for (const bool mismatch : {true, false}) {
    ScriptedLink s(1);
    s.connect(0);
    Bytes memory(64);
    (void)s.link().post_receive(kChannel, memory, 0);
    if (!mismatch) s.link().cancel_channel(kChannel);
    s.send(0, ScriptedLink::whole(kChannel, 0, 128));
    s.step();
    s.pass(10 * kMillisecond);
    ASSERT_FALSE(s.heard().back().channels.empty());
    EXPECT_TRUE(s.heard().back().channels[0].discards) << mismatch;
    EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
  }
}

// It has no ledgers yet, and gets them with the chunk that comes later.
TEST(Link, TellsThePeerOfAChannelThatWasCancelledUnused) {
  ScriptedLink s(1);
  s.connect(0);
  s.link().cancel_channel(kChannel);
  for (const bool sent : {false, true}) {
    if (sent) s.send(0, ScriptedLink::whole(kChannel, 0, 128));
    s.step();
    s.pass(10 * kMillisecond);
    ASSERT_EQ(s.heard().back().channels.size(), 1u);
    const ChannelReport& report = s.heard().back().channels[0];
    EXPECT_TRUE(report.discards);
    EXPECT_EQ(report.eager_total, limits::kEagerBytes);
    EXPECT_TRUE(report.partial.empty());
  }
  EXPECT_TRUE(s.link().idle(context_of(kChannel)));
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

// The acknowledgement of a small message may wait for 0.5 ms. A chunk that leaves meanwhile takes
// it along.
TEST(Link, AChunkCarriesTheStateThatWouldSoonBeDue) {
  ScriptedLink s(1);
  s.connect(0);
  const Bytes bytes(64);
  Bytes memory(64);
  (void)s.link().post_receive(kChannel, memory, 0);
  for (int turn = 0; turn < 100; ++turn) s.pass(kMillisecond);
  s.acknowledge();
  s.say(0, s.state());
  for (int turn = 0; turn < 10; ++turn) s.pass(kMillisecond);
  s.heard().clear();
  s.send(0, ScriptedLink::whole(kChannel, 0, 64));
  s.step();
  s.pass(300 * kMicrosecond);
  ASSERT_TRUE(s.heard().empty());
  (void)s.link().post_send(kChannel, bytes, 0);
  s.step();
  ASSERT_EQ(s.heard().size(), 1u);
  ASSERT_EQ(s.carried(), 1);
  ASSERT_EQ(s.heard()[0].channels.size(), 1u);
  EXPECT_EQ(s.heard()[0].channels[0].low_water, MessageNo(1));
  s.pass(kMillisecond);  // no control frame repeats it
  EXPECT_EQ(s.heard().size(), 1u);
}

TEST(Link, AChunkCarriesNoStateBehindOtherBytesAndNoNotice) {
  for (const bool notice : {false, true}) {
    ScriptedLink s(1);
    s.connect(0);
    const Bytes bytes(20'000);
    Bytes memory(64);
    (void)s.link().post_receive(kChannel, memory, 0);
    s.pass(kMillisecond);
    s.heard().clear();
    if (notice) {
      s.link().send_notice({{1, 0}, {std::byte{1}}});
    } else {
      (void)s.link().post_send(kChannel, bytes, 0);
      s.step();  // carries the state, if any
      s.heard().clear();
    }
    const int carried = s.carried();
    s.send(0, ScriptedLink::whole(kChannel, 0, 64));
    s.step();
    (void)s.link().post_send(kChannel, bytes, 0);
    s.step();
    EXPECT_EQ(s.carried(), carried) << notice;
    s.pass(kMillisecond);
    EXPECT_FALSE(s.heard().empty());
  }
}

TEST(Link, CarriedStateCountsLikeThatOfAControlFrame) {
  ScriptedLink s(1);
  s.connect(0);
  const Bytes bytes(40'000);
  Bytes memory(64);
  for (int i = 0; i < 2; ++i) (void)s.link().post_receive(kChannel, memory, 0);
  ControlFrame permit = s.state();
  permit.channels.push_back({kChannel, MessageNo(0), MessageNo(1), limits::kEagerBytes, {}});
  s.send_carrying(0, ScriptedLink::whole(kChannel, 0, 64), permit);
  s.step();
  (void)s.link().post_send(kChannel, bytes, 0);
  for (int turn = 0; turn < 5; ++turn) s.step();
  ASSERT_FALSE(s.chunks().empty());
  EXPECT_FALSE(s.chunks()[0].second.eager);
  EXPECT_TRUE(s.sent().empty());
  ControlFrame done = s.state();
  done.channels.push_back({kChannel, MessageNo(1), MessageNo(1), limits::kEagerBytes, {}});
  s.send_carrying(0, ScriptedLink::whole(kChannel, 1, 64), done);
  s.step();
  s.step();
  EXPECT_EQ(s.sent(), std::vector<MessageNo>{MessageNo(0)});
  EXPECT_EQ(s.path(0).model.bytes_outstanding(), 0u);
  EXPECT_EQ(s.path(0).state.phase(), PathPhase::up);
}

}  // namespace
}  // namespace r2ccl
