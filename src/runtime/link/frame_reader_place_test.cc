// The places of payloads that a reader skips, and of those whose bytes must appear in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "protocol/wire/handshake.h"
#include "protocol/wire/header_tag.h"
#include "runtime/link/frame_reader.h"
#include "testing/scripted_connection.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using Placement = ReceiveLedger::Placement;

constexpr uint32_t kSkipBytes = 5000;
const HeaderTag kTag(std::array<std::byte, kMacKeyBytes>{}, HeaderTag::Use::data);

struct PlacingOwner final : FrameReader::Owner {
  PlacingOwner(Placement given, size_t bytes) : placement(given), memory(bytes) {}

  Result<ReceiveLedger::Place> on_header(const DataHeader& header) override {
    ReceiveLedger::Place place{placement, nullptr};
    if (placement != Placement::discard) place.destination = memory.data() + header.offset;
    return place;
  }
  void on_frame(const DataHeader&, Bytes, bool is_discarded) override {
    ++frames;
    discarded = discarded || is_discarded;
  }
  void on_state(ControlFrame) override {}

  const Placement placement;
  Bytes memory;
  int frames = 0;
  bool discarded = false;
};

// Returns the header of a chunk, the `index`-th frame of its connection.
Bytes header_bytes(uint32_t index, uint32_t chunk_bytes, uint64_t message_bytes) {
  DataHeader header;
  header.offset = uint64_t{index} * chunk_bytes;
  header.chunk_bytes = chunk_bytes;
  header.message_bytes = message_bytes;
  header.payload_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(chunk_bytes, message_bytes - header.offset));
  header.transmission = index;
  Bytes bytes(kDataHeaderBytes);
  encode(header, std::span(bytes).first<kDataHeaderBytes>());
  kTag.seal(std::span(bytes).first<kDataHeaderBytes>());
  return bytes;
}

TEST(FrameReaderPlace, SkipsAPayloadThatItDiscardsAndNoOther) {
  const Bytes bytes = header_bytes(0, kSkipBytes, kSkipBytes);
  for (const Placement placement : {Placement::discard, Placement::direct}) {
    const bool wanted = placement == Placement::direct;
    PlacingOwner owner(placement, kSkipBytes);
    Bytes scratch(1000);
    FrameReader reader(owner, kTag, scratch);
    ScriptedConnection connection;
    connection.deliver(bytes);
    (void)reader.pump(connection, SIZE_MAX / 2);
    connection.let_skip(kSkipBytes);
    if (wanted) connection.deliver(Bytes(kSkipBytes, std::byte{1}));
    for (int i = 0; i < 3; ++i) (void)reader.pump(connection, SIZE_MAX / 2);
    EXPECT_EQ(connection.skip(SIZE_MAX), wanted ? kSkipBytes : 0);
    EXPECT_EQ(owner.frames, 1);
    EXPECT_EQ(owner.discarded, !wanted);
    EXPECT_EQ(reader.bytes(), kDataHeaderBytes + kSkipBytes);
    EXPECT_EQ(owner.memory.back(), wanted ? std::byte{1} : std::byte{0});
  }
}

// A message in chunks, and the stream of its frames.
struct Stream {
  explicit Stream(uint32_t chunk_bytes, size_t bytes) : message(bytes) {
    for (size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
    for (uint32_t i = 0; size_t{i} * chunk_bytes < bytes; ++i, ++frames) {
      const Bytes header = header_bytes(i, chunk_bytes, bytes);
      frames_of.insert(frames_of.end(), header.begin(), header.end());
      const auto payload = std::span(message).subspan(size_t{i} * chunk_bytes);
      const auto part = payload.first(std::min<size_t>(chunk_bytes, payload.size()));
      frames_of.insert(frames_of.end(), part.begin(), part.end());
    }
  }

  Bytes message;
  Bytes frames_of;
  int frames = 0;
};

void deliver(FrameReader& reader, ScriptedConnection& connection, std::span<const std::byte> part) {
  connection.deliver(part);
  for (uint64_t before = UINT64_MAX; before != reader.bytes();) {
    before = reader.bytes();
    (void)reader.pump(connection, SIZE_MAX / 2);
    (void)reader.pump(connection, SIZE_MAX / 2);  // a portion ends with a read that is blocked
  }
}

// A read would fill the memory in an order of its own.
TEST(FrameReaderPlace, ReadsIntoOtherMemoryWhereBytesMustAppearInOrder) {
  for (const uint32_t chunk : {4096U, 200'000U}) {
    const Stream stream(chunk, 3 * chunk + 100);
    for (const size_t step : {size_t{997}, size_t{5000}, size_t{70'000}, stream.frames_of.size()}) {
      PlacingOwner owner(Placement::in_order, stream.message.size());
      Bytes scratch(1000);
      ScriptedConnection connection;
      connection.watch(owner.memory);
      FrameReader reader(owner, kTag, scratch);
      for (size_t at = 0; at < stream.frames_of.size(); at += step) {
        const auto rest = std::span(stream.frames_of).subspan(at);
        deliver(reader, connection, rest.first(std::min(step, rest.size())));
      }
      EXPECT_EQ(owner.frames, stream.frames) << chunk << ' ' << step;
      EXPECT_FALSE(owner.discarded);
      EXPECT_EQ(owner.memory, stream.message) << chunk << ' ' << step;
      EXPECT_EQ(connection.watched_bytes(), 0U);
    }
  }
}

TEST(FrameReaderPlace, DiscardsTheRestOfAPayloadWhoseBytesMustAppearInOrder) {
  const Stream stream(4096, 8192);
  PlacingOwner owner(Placement::in_order, 8192);
  Bytes scratch(1000);
  ScriptedConnection connection;
  FrameReader reader(owner, kTag, scratch);
  const auto first = std::span(stream.frames_of).first(kDataHeaderBytes + 1000);
  deliver(reader, connection, first);
  ASSERT_TRUE(reader.discard_remainder(ChannelId(), MessageNo(), 0));
  deliver(reader, connection, std::span(stream.frames_of).subspan(first.size()));
  EXPECT_EQ(owner.frames, 2);
  EXPECT_TRUE(owner.discarded);
  EXPECT_TRUE(
      std::equal(owner.memory.begin(), owner.memory.begin() + 1000, stream.message.begin()));
  EXPECT_EQ(std::count(owner.memory.begin() + 1000, owner.memory.begin() + 4096, std::byte{}),
            3096);
  EXPECT_TRUE(
      std::equal(owner.memory.begin() + 4096, owner.memory.end(), stream.message.begin() + 4096));
}

}  // namespace
}  // namespace r2ccl
