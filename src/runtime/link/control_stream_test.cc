#include "runtime/link/control_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/limits.h"
#include "testing/scripted_connection.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

Session session(uint8_t send, uint8_t receive) {
  Session s;
  s.send_key.fill(std::byte{send});
  s.receive_key.fill(std::byte{receive});
  return s;
}

ControlFrame frame_with(uint64_t version, size_t notice_bytes = 5) {
  ControlFrame frame;
  frame.version = version;
  frame.paths.push_back({PathId(1), Incarnation(1), PathPhase::up, DownCause::none, 1, 3, 4});
  frame.notices.push_back({0, Bytes(notice_bytes, std::byte{7})});
  return frame;
}

// All streams share it, as those of one engine do.
std::span<std::byte> read_buffer() {
  static Bytes buffer(ControlStream::kReadBytes);
  return buffer;
}

Bytes spare;  // all streams share it, too

// One end of a control stream. The test holds the other end of its connection.
struct End {
  End(uint8_t send, uint8_t receive, Bytes leftover = {}) {
    auto owned = std::make_unique<ScriptedConnection>();
    connection = owned.get();
    control.emplace(std::move(owned), session(send, receive), std::move(leftover), read_buffer(),
                    spare);
  }
  ScriptedConnection* connection;
  std::optional<ControlStream> control;
};

// Returns the bytes of `count` frames as control stream `a` sends them.
Bytes sent_frames(uint64_t count, size_t notice_bytes = 5) {
  End a(1, 2);
  for (uint64_t i = 0; i < count; ++i) {
    ControlFrame frame = frame_with(i + 1, notice_bytes);
    EXPECT_EQ(a.control->send(frame).kind, IoKind::progressed);
    EXPECT_EQ(frame.control_sequence, i);
  }
  return a.connection->take_written();
}

struct Heard {
  std::vector<ControlFrame> frames;
  Status status;
};

Heard hear(End& end, std::span<const std::byte> bytes) {
  Heard heard;
  if (!bytes.empty()) end.connection->deliver(bytes);
  bool more = false;
  for (int i = 0; (i < 3 || more) && heard.status.ok(); ++i) {
    const ControlStream::Received received = end.control->receive(heard.frames);
    heard.status = received.status;
    more = received.end.kind == IoKind::progressed;
  }
  return heard;
}

TEST(ControlStream, DeliversFramesWhereverTheStreamIsSplit) {
  const Bytes stream = sent_frames(2);
  for (size_t split = 0; split <= stream.size(); ++split) {
    End b(2, 1);
    std::vector<ControlFrame> frames;
    for (const auto part : {std::span(stream).first(split), std::span(stream).subspan(split)}) {
      Heard heard = hear(b, part);
      ASSERT_TRUE(heard.status.ok()) << split;
      frames.insert(frames.end(), heard.frames.begin(), heard.frames.end());
    }
    ASSERT_EQ(frames.size(), 2u) << split;
    ASSERT_EQ(frames[0].version, 1u);
    ASSERT_EQ(frames[1].version, 2u);
    ASSERT_EQ(frames[1].notices, frame_with(2).notices);
    ASSERT_EQ(b.control->frames_received(), 2u);
  }
}

TEST(ControlStream, ContinuesBytesThatCameWithTheHandshake) {
  const Bytes stream = sent_frames(2);
  for (size_t split = 0; split <= stream.size(); ++split) {
    End b(2, 1, Bytes(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(split)));
    const Heard heard = hear(b, std::span(stream).subspan(split));
    ASSERT_TRUE(heard.status.ok());
    ASSERT_EQ(heard.frames.size(), 2u) << split;
  }
}

TEST(ControlStream, KeepsAPartialFrameWhileOtherStreamsRead) {
  const Bytes stream = sent_frames(2);
  const size_t split = stream.size() / 2 + 3;
  std::vector<End> ends;
  for (int i = 0; i < 3; ++i) ends.emplace_back(2, 1);
  for (End& end : ends) EXPECT_EQ(hear(end, std::span(stream).first(split)).frames.size(), 1u);
  for (End& end : ends) {
    const Heard heard = hear(end, std::span(stream).subspan(split));
    ASSERT_TRUE(heard.status.ok());
    EXPECT_EQ(heard.frames.size(), 1u);
  }
}

TEST(ControlStream, TakesFramesLargerThanOneReadAndManyInOne) {
  End large(2, 1);
  EXPECT_EQ(hear(large, sent_frames(40, limits::kNoticeBytesMax)).frames.size(), 40u);
  End many(2, 1);
  EXPECT_EQ(hear(many, sent_frames(500)).frames.size(), 500u);
}

TEST(ControlStream, TheLastFrameFollowsAnUnfinishedOneInPartsAndTakesNoMemory) {
  End a(1, 2);
  ControlFrame first = frame_with(1);
  a.connection->limit_writes({10, 0, 0, 1000, 7, 0, 9});
  EXPECT_EQ(a.control->send(first).kind, IoKind::blocked);
  ControlFrame last = frame_with(2);
  Bytes memory;
  memory.reserve(kControlHeaderBytes + encoded_body_bytes(last) + kMacBytes);
  const std::byte* const reserved = memory.data();
  EXPECT_EQ(a.control->send_last(last, memory).kind, IoKind::blocked);  // behind the first one
  EXPECT_EQ(a.control->send_last(last, memory).kind, IoKind::blocked);  // after seven bytes
  EXPECT_EQ(a.control->send_last(last, memory).kind, IoKind::progressed);
  EXPECT_EQ(memory.data(), reserved);
  End b(2, 1);
  const Heard heard = hear(b, a.connection->written());
  ASSERT_TRUE(heard.status.ok()) << heard.status.message();
  ASSERT_EQ(heard.frames.size(), 2u);
  EXPECT_EQ(heard.frames[1].version, 2u);
}

// A peer that keeps writing must neither delay the other connections nor fill the memory.
TEST(ControlStream, OneTurnTakesBoundedBytesAndFrames) {
  constexpr uint64_t kFrames = 5000;
  for (const size_t notice_bytes : {size_t{5}, limits::kNoticeBytesMax}) {
    const Bytes stream = sent_frames(kFrames, notice_bytes);
    const size_t frame_bytes = stream.size() / kFrames;
    End b(2, 1);
    b.connection->deliver(stream);
    size_t heard = 0;
    size_t turns = 0;
    while (heard < kFrames) {
      std::vector<ControlFrame> frames;
      const ControlStream::Received received = b.control->receive(frames);
      ASSERT_TRUE(received.status.ok());
      const size_t last_read = ControlStream::kReadBytes / frame_bytes + 1;
      EXPECT_LE(frames.size(), ControlStream::kFramesPerTurn + last_read);
      EXPECT_LE(frames.size() * frame_bytes,
                ControlStream::kBytesPerTurn + ControlStream::kReadBytes + frame_bytes);
      heard += frames.size();
      ++turns;
      ASSERT_EQ(received.end.kind, heard < kFrames ? IoKind::progressed : received.end.kind);
    }
    EXPECT_EQ(heard, kFrames);
    EXPECT_GT(turns, 10u);
  }
}

TEST(ControlStream, WritesTheRestOfAFrameBeforeTheNext) {
  const Bytes want = sent_frames(2);
  for (size_t split = 1; split < want.size() / 2; ++split) {
    End a(1, 2);
    a.connection->limit_writes({split, 0});
    ControlFrame first = frame_with(1);
    ASSERT_EQ(a.control->send(first).kind, IoKind::blocked);
    ASSERT_FALSE(a.control->can_send());
    ASSERT_EQ(a.control->flush().kind, IoKind::progressed);
    ASSERT_TRUE(a.control->can_send());
    ControlFrame second = frame_with(2);
    ASSERT_EQ(a.control->send(second).kind, IoKind::progressed);
    ASSERT_EQ(a.connection->written(), want) << split;
    ASSERT_EQ(a.control->frames_sent(), 2u);
  }
}

TEST(ControlStreamDeathTest, NothingIsQueuedBehindAHalfWrittenFrame) {
  End a(1, 2);
  a.connection->limit_writes({3, 0});
  ControlFrame frame = frame_with(1);
  (void)a.control->send(frame);
  EXPECT_DEATH((void)a.control->send(frame), "bug");
}

TEST(ControlStream, TakesNoFrameInWhichAByteWasChanged) {
  const Bytes stream = sent_frames(1);
  for (size_t at = 0; at < stream.size(); ++at) {
    Bytes forged = stream;
    forged[at] ^= std::byte{1};
    End b(2, 1);
    const Heard heard = hear(b, forged);
    EXPECT_TRUE(heard.frames.empty()) << at;
    EXPECT_EQ(heard.status.code(), Code::remote) << at;
    EXPECT_TRUE(b.control->corrupted()) << at;
  }
}

// The reader would wait for bytes that never come.
TEST(ControlStream, BelievesNoSizeThatWasChanged) {
  Bytes header = sent_frames(1);
  header.resize(kControlHeaderBytes);
  for (const size_t at : {8u, 9u}) {
    Bytes forged = header;
    forged[at] ^= std::byte{0x40};
    End b(2, 1);
    EXPECT_EQ(hear(b, forged).status.code(), Code::remote) << at;
  }
}

TEST(ControlStream, TakesNoFrameUnderAnotherKey) {
  const Bytes stream = sent_frames(1);
  End stranger(2, 9);
  EXPECT_EQ(hear(stranger, stream).status.code(), Code::remote);
  End mirror(1, 2);  // an attacker must not reflect the end's own frames
  EXPECT_EQ(hear(mirror, stream).status.code(), Code::remote);
}

TEST(ControlStream, TakesNoFrameTwiceAndMissesNone) {
  const Bytes stream = sent_frames(2);
  const auto first = std::span(stream).first(stream.size() / 2);
  const auto second = std::span(stream).subspan(stream.size() / 2);
  End replayed(2, 1);
  EXPECT_EQ(hear(replayed, first).frames.size(), 1u);
  EXPECT_EQ(hear(replayed, first).status.code(), Code::remote);
  End missing(2, 1);
  const Heard heard = hear(missing, second);
  EXPECT_EQ(heard.status.code(), Code::remote);
  EXPECT_TRUE(heard.frames.empty());
}

TEST(ControlStream, KeepsTheFramesThatCameBeforeABadOne) {
  Bytes stream = sent_frames(2);
  stream.back() ^= std::byte{1};
  End b(2, 1);
  const Heard heard = hear(b, stream);
  EXPECT_EQ(heard.frames.size(), 1u);
  EXPECT_FALSE(heard.status.ok());
}

TEST(ControlStream, RefusesAnOversizedFrameBeforeItsBytesCome) {
  Bytes header = sent_frames(1);
  header.resize(kControlHeaderBytes);
  header[10] = std::byte{2};  // 128 KB
  HeaderTag(session(1, 2).send_key, HeaderTag::Use::control)
      .seal(std::span(header).first<kControlHeaderBytes>(), 0);
  End b(2, 1);
  EXPECT_EQ(hear(b, header).status.code(), Code::remote);
}

TEST(ControlStream, SaysWhyTheConnectionEnded) {
  const Bytes stream = sent_frames(1);
  End b(2, 1);
  b.connection->deliver(stream);
  b.connection->end_reads({IoKind::closed, 0, 0});
  std::vector<ControlFrame> frames;
  IoKind kind = IoKind::blocked;
  for (int i = 0; i < 3; ++i) kind = b.control->receive(frames).end.kind;
  EXPECT_EQ(frames.size(), 1u);
  EXPECT_EQ(kind, IoKind::closed);
}

}  // namespace
}  // namespace r2ccl
