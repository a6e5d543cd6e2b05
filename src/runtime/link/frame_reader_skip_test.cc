// A reader does not fetch payload that it discards and that the sender still has in place.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "protocol/wire/handshake.h"
#include "protocol/wire/header_tag.h"
#include "runtime/link/frame_reader.h"
#include "testing/scripted_connection.h"

namespace r2ccl {
namespace {

constexpr uint32_t kSkipBytes = 5000;

struct PlacingOwner final : FrameReader::Owner {
  Result<ReceiveLedger::Place> on_header(const DataHeader&) override {
    ReceiveLedger::Place place{placement, nullptr};
    if (placement == ReceiveLedger::Placement::direct) place.destination = memory.data();
    return place;
  }
  void on_frame(const DataHeader&, std::vector<std::byte>, bool is_discarded) override {
    ++frames;
    discarded = is_discarded;
  }
  void on_state(ControlFrame) override {}

  ReceiveLedger::Placement placement{};
  std::vector<std::byte> memory = std::vector<std::byte>(kSkipBytes);
  int frames = 0;
  bool discarded = false;
};

TEST(FrameReaderSkip, SkipsAPayloadThatItDiscardsAndNoOther) {
  using Placement = ReceiveLedger::Placement;
  const HeaderTag tag(std::array<std::byte, kMacKeyBytes>{}, HeaderTag::Use::data);
  DataHeader header;
  header.payload_bytes = header.chunk_bytes = kSkipBytes;
  header.message_bytes = kSkipBytes;
  std::vector<std::byte> bytes(kDataHeaderBytes);
  encode(header, std::span(bytes).first<kDataHeaderBytes>());
  tag.seal(std::span(bytes).first<kDataHeaderBytes>());
  for (const Placement placement : {Placement::discard, Placement::direct}) {
    const bool wanted = placement == Placement::direct;
    PlacingOwner owner;
    owner.placement = placement;
    std::vector<std::byte> scratch(1000);
    FrameReader reader(owner, tag, scratch);
    ScriptedConnection connection;
    connection.deliver(bytes);
    (void)reader.pump(connection, SIZE_MAX / 2);
    connection.let_skip(kSkipBytes);
    if (wanted) connection.deliver(std::vector<std::byte>(kSkipBytes, std::byte{1}));
    for (int i = 0; i < 3; ++i) (void)reader.pump(connection, SIZE_MAX / 2);
    EXPECT_EQ(connection.skip(SIZE_MAX), wanted ? kSkipBytes : 0);
    EXPECT_EQ(owner.frames, 1);
    EXPECT_EQ(owner.discarded, !wanted);
    EXPECT_EQ(reader.bytes(), kDataHeaderBytes + kSkipBytes);
    EXPECT_EQ(owner.memory.back(), wanted ? std::byte{1} : std::byte{0});
  }
}

}  // namespace
}  // namespace r2ccl
