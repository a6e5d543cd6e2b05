#include "runtime/link/frame_writer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "testing/scripted_connection.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

const HeaderTag kTag(std::array<std::byte, kMacKeyBytes>{std::byte{9}}, HeaderTag::Use::data);

DataHeader header_of(uint32_t payload_bytes) {
  DataHeader h;
  h.channel = ChannelId(1);
  h.message = MessageNo(2);
  h.chunk_bytes = payload_bytes;
  h.message_bytes = payload_bytes;
  h.payload_bytes = payload_bytes;
  return h;
}

Bytes pattern(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(1 + (i * 7 + i / 256) % 255);
  return bytes;
}

Bytes frame_of(const DataHeader& header, const Bytes& payload) {
  std::array<std::byte, kDataHeaderBytes> head;
  encode(header, head);
  kTag.seal(head);
  Bytes frame(head.begin(), head.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

TEST(FrameWriter, WritesHeaderAndPayloadHoweverShortTheWritesAre) {
  const Bytes payload = pattern(4096);
  const Bytes want = frame_of(header_of(4096), payload);
  for (size_t split = 1; split < want.size(); ++split) {
    ScriptedConnection connection;
    connection.limit_writes({split, 0});
    FrameWriter writer(kTag);
    writer.start(header_of(4096), payload);
    ASSERT_EQ(writer.flush(connection).kind, IoKind::blocked);
    ASSERT_TRUE(writer.busy());
    ASSERT_EQ(connection.written().size(), split);
    ASSERT_EQ(writer.flush(connection).kind, IoKind::progressed);
    ASSERT_FALSE(writer.busy());
    ASSERT_EQ(connection.written(), want) << split;
  }
}

TEST(FrameWriter, WritesByteByByte) {
  const Bytes payload = pattern(300);
  ScriptedConnection connection;
  connection.limit_writes(std::deque<size_t>(kDataHeaderBytes + 300, 1));
  FrameWriter writer(kTag);
  writer.start(header_of(300), payload);
  EXPECT_EQ(writer.flush(connection).kind, IoKind::progressed);
  EXPECT_EQ(connection.written(), frame_of(header_of(300), payload));
}

TEST(FrameWriter, WritesTheStateBetweenHeaderAndPayload) {
  const Bytes payload = pattern(300);
  ControlFrame state;
  state.version = 7;
  Bytes carried;
  encode_carried_state(state, carried);
  DataHeader header = header_of(300);
  header.state_bytes = static_cast<uint16_t>(carried.size());
  ScriptedConnection connection;
  connection.limit_writes(std::deque<size_t>(header.frame_bytes(), 1));
  FrameWriter writer(kTag);
  writer.start(header, payload, carried);
  while (writer.busy()) ASSERT_NE(writer.flush(connection).kind, IoKind::failed);
  kTag.seal_state(carried);
  Bytes want = frame_of(header, carried);
  want.insert(want.end(), payload.begin(), payload.end());
  EXPECT_EQ(connection.written(), want);
}

TEST(FrameWriter, WritesOneFrameAfterAnother) {
  ScriptedConnection connection;
  FrameWriter writer(kTag);
  Bytes want;
  for (const uint32_t bytes : {0u, 64u, 0u, 200'000u}) {
    const Bytes payload = pattern(bytes);
    writer.start(header_of(bytes), payload);
    EXPECT_EQ(writer.flush(connection).kind, IoKind::progressed);
    const Bytes frame = frame_of(header_of(bytes), payload);
    want.insert(want.end(), frame.begin(), frame.end());
  }
  EXPECT_EQ(connection.written(), want);
}

TEST(FrameWriter, OnlyAPayloadThatStaysIsSentInPlace) {
  const Bytes payload = pattern(4096);
  for (const bool in_place : {false, true}) {
    ScriptedConnection connection;
    FrameWriter writer(kTag);
    writer.start(header_of(4096), payload, {}, in_place);
    EXPECT_EQ(writer.flush(connection).kind, IoKind::progressed);
    EXPECT_EQ(connection.sends(), in_place ? 1u : 0u);
    EXPECT_EQ(connection.written(), frame_of(header_of(4096), payload));
  }
}

TEST(FrameWriter, PaddingAndACopyOfTheRemainderAreNotSentInPlace) {
  for (const bool padding : {false, true}) {
    const Bytes payload = pattern(4096);
    ScriptedConnection connection;
    connection.limit_writes({100, 0});
    FrameWriter writer(kTag);
    writer.start(header_of(4096), payload, {}, true);
    EXPECT_EQ(writer.flush(connection).kind, IoKind::blocked);
    const size_t sends = connection.sends();
    if (padding) {
      writer.finish_with_padding(ChannelId(1), MessageNo(2));
    } else {
      EXPECT_TRUE(writer.copy_remainder(ChannelId(1)));
    }
    EXPECT_EQ(writer.flush(connection).kind, IoKind::progressed);
    EXPECT_EQ(connection.sends(), sends);
  }
}

TEST(FrameWriter, AFrameWithoutBytesOfItsOwnIsPadding) {
  DataHeader probe = header_of(100'000);  // longer than the padding buffer
  probe.type = FrameType::probe;
  ScriptedConnection connection;
  FrameWriter writer(kTag);
  writer.start(probe, {});
  EXPECT_EQ(writer.flush(connection).kind, IoKind::progressed);
  EXPECT_EQ(connection.written(), frame_of(probe, Bytes(100'000)));
}

// Frees the memory as soon as the message has ended, so that ASan sees any later read.
class FrameWriterEnd : public testing::TestWithParam<size_t> {
 protected:
  static constexpr uint32_t kBytes = 150'000;

  void start() {
    connection_.limit_writes({GetParam(), 0});
    writer_.start(header_of(kBytes), *payload_);
    ASSERT_EQ(writer_.flush(connection_).kind, IoKind::blocked);
  }
  void finish() {
    payload_.reset();
    connection_.limit_writes({1, 100, 70'000});
    ASSERT_EQ(writer_.flush(connection_).kind, IoKind::progressed);
    ASSERT_FALSE(writer_.busy());
  }

  std::unique_ptr<Bytes> payload_ = std::make_unique<Bytes>(pattern(kBytes));
  ScriptedConnection connection_;
  FrameWriter writer_{kTag};
};

TEST_P(FrameWriterEnd, APaddedFrameHasItsFullLengthAndLeavesTheStreamReadable) {
  start();
  writer_.finish_with_padding(ChannelId(1), MessageNo(2));
  finish();
  Bytes want = frame_of(header_of(kBytes), pattern(kBytes));
  std::fill(want.begin() + static_cast<ptrdiff_t>(std::max(GetParam(), kDataHeaderBytes)),
            want.end(), std::byte{0});
  EXPECT_EQ(connection_.take_written(), want);
  const Bytes next = pattern(64);
  writer_.start(header_of(64), next);
  EXPECT_EQ(writer_.flush(connection_).kind, IoKind::progressed);
  EXPECT_EQ(connection_.written(), frame_of(header_of(64), next));
}

// The receiver of a message that was cancelled here does not know that, and takes the bytes for
// data.
TEST_P(FrameWriterEnd, AKeptFrameStillCarriesItsOwnBytes) {
  start();
  EXPECT_TRUE(writer_.copy_remainder(ChannelId(1)));
  finish();
  EXPECT_EQ(connection_.written(), frame_of(header_of(kBytes), pattern(kBytes)));
}

TEST_P(FrameWriterEnd, TheEndOfAnotherMessageChangesNothing) {
  start();
  writer_.finish_with_padding(ChannelId(1), MessageNo(3));
  writer_.finish_with_padding(ChannelId(2), MessageNo(2));
  EXPECT_TRUE(writer_.copy_remainder(ChannelId(2)));
  ASSERT_EQ(writer_.flush(connection_).kind, IoKind::progressed);
  EXPECT_EQ(connection_.written(), frame_of(header_of(kBytes), pattern(kBytes)));
}

INSTANTIATE_TEST_SUITE_P(Written, FrameWriterEnd,
                         testing::Values(1, kDataHeaderBytes - 1, kDataHeaderBytes,
                                         kDataHeaderBytes + 1, 70'000, 150'000));

TEST(FrameWriter, StaysBusyWhenTheConnectionFails) {
  const Bytes payload = pattern(10);
  ScriptedConnection connection;
  connection.fail_writes(EPIPE);
  FrameWriter writer(kTag);
  writer.start(header_of(10), payload);
  const IoResult result = writer.flush(connection);
  EXPECT_EQ(result.kind, IoKind::failed);
  EXPECT_EQ(result.error, EPIPE);
  EXPECT_TRUE(writer.busy());
}

TEST(FrameWriterDeathTest, WritesOneFrameAtATime) {
  FrameWriter writer(kTag);
  writer.start(header_of(0), {});
  EXPECT_DEATH(writer.start(header_of(0), {}), "bug");
}

// Neither padding nor a copy would be right, so the writer sends no more bytes.
TEST(FrameWriter, AbandonsAFrameWhoseBytesCannotBeRead) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<const std::byte> payload(static_cast<const std::byte*>(memory), 2 * page);
  ScriptedConnection connection;
  connection.limit_writes({kDataHeaderBytes + page, 0});
  FrameWriter writer(kTag);
  writer.start(header_of(static_cast<uint32_t>(2 * page)), payload);
  ASSERT_EQ(writer.flush(connection).kind, IoKind::blocked);
  EXPECT_EQ(writer.unwritten().data(), payload.data() + page);
  EXPECT_EQ(writer.unwritten().size(), page);
  ASSERT_EQ(munmap(static_cast<std::byte*>(memory) + page, page), 0);
  EXPECT_FALSE(writer.copy_remainder(ChannelId(1)));
  EXPECT_TRUE(writer.abandoned());
  EXPECT_EQ(writer.flush(connection).kind, IoKind::blocked);
  EXPECT_TRUE(writer.busy()) << "no other frame may follow";
  EXPECT_EQ(connection.written().size(), kDataHeaderBytes + page);
  munmap(memory, page);
}

}  // namespace
}  // namespace r2ccl
