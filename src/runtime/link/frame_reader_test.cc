#include "runtime/link/frame_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <vector>

#include "base/limits.h"
#include "testing/fuzz.h"
#include "testing/scripted_connection.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using Placement = ReceiveLedger::Placement;

constexpr uint32_t kPayload = 4096;
constexpr std::byte kUntouched{0xee};
const HeaderTag kTag(std::array<std::byte, kMacKeyBytes>{std::byte{9}}, HeaderTag::Use::data);

DataHeader chunk_header(uint32_t index, uint32_t payload_bytes = kPayload) {
  DataHeader h;
  h.channel = ChannelId(1);
  h.message = MessageNo(2);
  h.chunk_bytes = kPayload;
  h.offset = uint64_t{index} * kPayload;
  h.payload_bytes = payload_bytes;
  h.message_bytes = payload_bytes == 0 ? 0 : h.offset + payload_bytes;
  h.transmission = index;
  return h;
}

Bytes payload_of(const DataHeader& header) {
  Bytes bytes(header.payload_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((header.offset / kPayload + 1) * 37 + i * 7 + i / 256);
  }
  return bytes;
}

void append_frame(Bytes& stream, DataHeader header, const Bytes& state = {}) {
  header.state_bytes = static_cast<uint16_t>(state.size());
  std::array<std::byte, kDataHeaderBytes> bytes;
  encode(header, bytes);
  kTag.seal(bytes);
  stream.insert(stream.end(), bytes.begin(), bytes.end());
  stream.insert(stream.end(), state.begin(), state.end());
  const Bytes payload = payload_of(header);
  stream.insert(stream.end(), payload.begin(), payload.end());
}

Bytes state_of(uint64_t transmission, uint64_t version) {
  ControlFrame frame;
  frame.control_sequence = transmission;
  frame.version = version;
  frame.paths.push_back({PathId(3), Incarnation(2), PathPhase::up, DownCause::none, 10, 12, 13});
  Bytes state;
  encode_carried_state(frame, state);
  kTag.seal_state(state);
  return state;
}

// Returns three chunks, so that a test also checks the bytes behind a frame.
Bytes three_frames() {
  Bytes stream;
  append_frame(stream, chunk_header(0));
  append_frame(stream, chunk_header(1));
  append_frame(stream, chunk_header(2, 100));
  return stream;
}

struct RecordingOwner final : FrameReader::Owner {
  struct Frame {
    DataHeader header;
    Bytes early;
    bool discarded;
  };
  Result<ReceiveLedger::Place> on_header(const DataHeader& header) override {
    ++headers;
    if (refuse) return Status(Code::remote, "refused by the owner");
    ReceiveLedger::Place place{placement, nullptr};
    if (placement == Placement::direct) place.destination = memory.data() + header.offset;
    return place;
  }
  void on_frame(const DataHeader& header, Bytes early, bool discarded) override {
    frames.push_back({header, std::move(early), discarded});
  }
  void on_state(ControlFrame state) override {
    states.emplace_back(std::move(state), frames.size());
  }
  bool has(const DataHeader& header) const {
    const Bytes want = payload_of(header);
    return std::equal(want.begin(), want.end(),
                      memory.begin() + static_cast<ptrdiff_t>(header.offset));
  }
  bool untouched(size_t from, size_t to) const {
    return std::all_of(memory.begin() + static_cast<ptrdiff_t>(from),
                       memory.begin() + static_cast<ptrdiff_t>(to),
                       [](std::byte b) { return b == kUntouched; });
  }

  Placement placement = Placement::direct;
  bool refuse = false;
  int headers = 0;
  Bytes memory = Bytes(4 * kPayload, kUntouched);
  std::vector<Frame> frames;
  std::vector<std::pair<ControlFrame, size_t>> states;  // and the frames before each
};

class FrameReaderTest : public testing::Test {
 protected:
  // Reads until no more bytes are there, and returns the last result.
  FrameReader::Pumped pump_all(FrameReader& reader) {
    FrameReader::Pumped last;
    // Bytes of a header count once it is whole.
    for (size_t quiet = 0; quiet < 2 + kDataHeaderBytes;) {
      const uint64_t before = reader.bytes();
      last = reader.pump(connection_, SIZE_MAX / 2);
      if (!last.status.ok()) break;
      quiet = reader.bytes() == before ? quiet + 1 : 0;
    }
    return last;
  }
  void deliver(const Bytes& stream, size_t from, size_t to) {
    connection_.deliver(std::span(stream).subspan(from, to - from));
  }

  RecordingOwner owner_;
  Bytes scratch_ = Bytes(1000);
  ScriptedConnection connection_;
};

TEST_F(FrameReaderTest, ReadsFramesWhereverTheStreamIsSplit) {
  const Bytes stream = three_frames();
  for (size_t split = 0; split <= stream.size(); ++split) {
    RecordingOwner owner;
    FrameReader reader(owner, kTag, scratch_);
    deliver(stream, 0, split);
    deliver(stream, split, stream.size());
    ASSERT_TRUE(pump_all(reader).status.ok()) << split;
    ASSERT_EQ(owner.frames.size(), 3u) << split;
    ASSERT_EQ(owner.headers, 3);
    for (uint32_t i = 0; i < 3; ++i) {
      const DataHeader want = chunk_header(i, i == 2 ? 100 : kPayload);
      ASSERT_EQ(owner.frames[i].header, want);
      ASSERT_FALSE(owner.frames[i].discarded);
      ASSERT_TRUE(owner.has(want)) << split;
    }
    ASSERT_TRUE(owner.untouched(2 * kPayload + 100, owner.memory.size()));
    ASSERT_EQ(reader.frames(), 3u);
    ASSERT_EQ(reader.bytes(), stream.size());
  }
}

TEST_F(FrameReaderTest, ReadsFramesThatComeByteByByte) {
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  for (size_t i = 0; i < stream.size(); ++i) {
    deliver(stream, i, i + 1);
    ASSERT_TRUE(reader.pump(connection_, 1 << 20).status.ok());
    (void)reader.pump(connection_, 1 << 20);  // finds no more bytes
    ASSERT_LE(reader.bytes(), i + 1);
    ASSERT_LT(i + 1 - reader.bytes(), kDataHeaderBytes) << "a header counts once it is whole";
  }
  ASSERT_EQ(reader.bytes(), stream.size());
  ASSERT_EQ(owner_.frames.size(), 3u);
  EXPECT_TRUE(owner_.has(chunk_header(1)));
}

TEST_F(FrameReaderTest, ContinuesBytesThatWereReadBeforeItExisted) {
  const Bytes stream = three_frames();
  for (size_t split = 0; split <= stream.size(); split += 13) {
    RecordingOwner owner;
    FrameReader reader(owner, kTag, scratch_);
    ASSERT_TRUE(reader.prefill(std::span(stream).first(split)).ok());
    deliver(stream, split, stream.size());
    ASSERT_TRUE(pump_all(reader).status.ok());
    ASSERT_EQ(owner.frames.size(), 3u) << split;
    ASSERT_TRUE(owner.has(chunk_header(0)) && owner.has(chunk_header(1)));
    ASSERT_EQ(reader.bytes(), stream.size());
  }
}

TEST_F(FrameReaderTest, AfterADiscardTheDestinationIsNotTouchedAgain) {
  const Bytes stream = three_frames();
  for (size_t split = kDataHeaderBytes; split < kDataHeaderBytes + kPayload; ++split) {
    RecordingOwner owner;
    FrameReader reader(owner, kTag, scratch_);
    deliver(stream, 0, split);
    ASSERT_TRUE(pump_all(reader).status.ok());
    ASSERT_TRUE(reader.discard_remainder(ChannelId(1), MessageNo(2), 0));
    ASSERT_FALSE(reader.discard_remainder(ChannelId(1), MessageNo(2), 0))
        << "it goes to scratch by now";
    std::fill(owner.memory.begin(), owner.memory.end(), kUntouched);  // bytes of the first copy
    deliver(stream, split, stream.size());
    ASSERT_TRUE(pump_all(reader).status.ok());
    ASSERT_TRUE(owner.untouched(0, kPayload)) << split;
    ASSERT_EQ(owner.frames.size(), 3u);
    ASSERT_TRUE(owner.frames[0].discarded);
    ASSERT_FALSE(owner.frames[1].discarded);
    ASSERT_TRUE(owner.has(chunk_header(1)) && owner.has(chunk_header(2, 100)));
  }
}

TEST_F(FrameReaderTest, DiscardsTheRemainderOfTheNamedChunkOnly) {
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, 500);
  pump_all(reader);
  EXPECT_FALSE(reader.discard_remainder(ChannelId(1), MessageNo(2), kPayload));
  EXPECT_FALSE(reader.discard_remainder(ChannelId(1), MessageNo(3), 0));
  EXPECT_FALSE(reader.discard_remainder(ChannelId(2), MessageNo(2), 0));
  EXPECT_FALSE(reader.discard_remainder(ChannelId(2)));
  deliver(stream, 500, stream.size());
  pump_all(reader);
  EXPECT_FALSE(owner_.frames.at(0).discarded);
  EXPECT_TRUE(owner_.has(chunk_header(0)));
}

TEST_F(FrameReaderTest, DiscardsTheRemainderOfAnyPayloadOfAChannel) {
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, 500);
  pump_all(reader);
  EXPECT_TRUE(reader.discard_remainder(ChannelId(1)));
  deliver(stream, 500, stream.size());
  pump_all(reader);
  EXPECT_TRUE(owner_.frames.at(0).discarded);
  EXPECT_TRUE(owner_.untouched(500 - kDataHeaderBytes, kPayload));
}

TEST_F(FrameReaderTest, ADiscardBetweenFramesMeansNothing) {
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  EXPECT_FALSE(reader.discard_remainder(ChannelId(0), MessageNo(0), 0));
  deliver(stream, 0, kDataHeaderBytes + kPayload + 10);
  pump_all(reader);
  ASSERT_EQ(owner_.frames.size(), 1u);
  EXPECT_FALSE(reader.discard_remainder(ChannelId(1), MessageNo(2), 0));
  deliver(stream, kDataHeaderBytes + kPayload + 10, stream.size());
  pump_all(reader);
  EXPECT_FALSE(owner_.frames.at(1).discarded);
}

TEST_F(FrameReaderTest, HandsOverEarlyBytes) {
  owner_.placement = Placement::early;
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, 700);
  deliver(stream, 700, stream.size());
  pump_all(reader);
  ASSERT_EQ(owner_.frames.size(), 3u);
  EXPECT_EQ(owner_.frames[0].early, payload_of(chunk_header(0)));
  EXPECT_EQ(owner_.frames[2].early, payload_of(chunk_header(2, 100)));
  EXPECT_FALSE(owner_.frames[0].discarded);
}

TEST_F(FrameReaderTest, DiscardsPayloadsLargerThanItsScratch) {
  owner_.placement = Placement::discard;
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  pump_all(reader);
  ASSERT_EQ(owner_.frames.size(), 3u);
  EXPECT_TRUE(owner_.frames[0].discarded);
  EXPECT_TRUE(owner_.untouched(0, owner_.memory.size()));
}

TEST_F(FrameReaderTest, TakesCarriedStateBeforeThePayloadWhereverTheStreamIsSplit) {
  for (const uint32_t payload : {0u, 100u, kPayload}) {
    Bytes stream;
    append_frame(stream, chunk_header(0), state_of(0, 5));
    append_frame(stream, chunk_header(1));
    DataHeader last = chunk_header(payload == 0 ? 0 : 2, payload);
    last.transmission = 2;
    append_frame(stream, last, state_of(2, 6));
    for (size_t split = 0; split <= stream.size(); ++split) {
      RecordingOwner owner;
      FrameReader reader(owner, kTag, scratch_);
      deliver(stream, 0, split);
      deliver(stream, split, stream.size());
      ASSERT_TRUE(pump_all(reader).status.ok()) << split;
      ASSERT_EQ(owner.frames.size(), 3u) << split;
      ASSERT_EQ(owner.states.size(), 2u) << split;
      ASSERT_EQ(owner.states[0].first.version, 5u);
      ASSERT_EQ(owner.states[0].second, 0u);
      ASSERT_EQ(owner.states[1].first.version, 6u);
      ASSERT_EQ(owner.states[1].second, 2u);
      ASSERT_TRUE(owner.has(chunk_header(0))) << split;
      ASSERT_TRUE(owner.has(chunk_header(1))) << split;
      ASSERT_TRUE(owner.has(last)) << split;
      ASSERT_EQ(reader.bytes(), stream.size());
    }
  }
}

TEST_F(FrameReaderTest, RefusesCarriedStateInWhichABitWasChangedBeforeItActsOnIt) {
  Bytes good;
  append_frame(good, chunk_header(0), state_of(0, 5));
  const size_t state_bytes = state_of(0, 5).size();
  for (size_t bit = 0; bit < 8 * state_bytes; ++bit) {
    Bytes stream = good;
    stream[kDataHeaderBytes + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    RecordingOwner owner;
    FrameReader reader(owner, kTag, scratch_);
    deliver(stream, 0, stream.size());
    ASSERT_EQ(pump_all(reader).status.code(), Code::remote) << bit;
    ASSERT_TRUE(reader.corrupted());
    ASSERT_TRUE(owner.states.empty());
    ASSERT_TRUE(owner.frames.empty());
  }
}

TEST_F(FrameReaderTest, RefusesTheStateOfAnotherFrame) {
  Bytes stream;
  append_frame(stream, chunk_header(0), state_of(1, 5));
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  EXPECT_EQ(pump_all(reader).status.code(), Code::remote);
  EXPECT_TRUE(reader.corrupted());
  EXPECT_TRUE(owner_.states.empty());
}

TEST_F(FrameReaderTest, SkipsFramesOfALaterVersionAndCountsThem) {
  Bytes stream;
  append_frame(stream, chunk_header(0));
  stream[5] = std::byte{77};
  kTag.seal(std::span(stream).first<kDataHeaderBytes>());
  append_frame(stream, chunk_header(1));
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, 1000);
  deliver(stream, 1000, stream.size());
  ASSERT_TRUE(pump_all(reader).status.ok());
  ASSERT_EQ(owner_.frames.size(), 1u);
  EXPECT_EQ(owner_.frames[0].header, chunk_header(1));
  EXPECT_EQ(reader.frames(), 2u);
  EXPECT_TRUE(owner_.untouched(0, kPayload));
}

TEST_F(FrameReaderTest, ReadsFramesWithoutAPayload) {
  Bytes stream;
  for (uint64_t i = 0; i < 3; ++i) {
    DataHeader header = chunk_header(0, 0);
    header.transmission = i;
    append_frame(stream, header);
  }
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  pump_all(reader);
  EXPECT_EQ(owner_.frames.size(), 3u);
}

TEST_F(FrameReaderTest, RefusesBytesThatAreNoFrame) {
  Bytes stream = three_frames();
  stream[kDataHeaderBytes + kPayload] ^= std::byte{1};  // the magic of the second frame
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  EXPECT_EQ(pump_all(reader).status.code(), Code::remote);
  EXPECT_EQ(owner_.frames.size(), 1u);
}

TEST_F(FrameReaderTest, RefusesAHeaderInWhichABitWasChangedBeforeItActsOnIt) {
  const Bytes good = three_frames();
  constexpr size_t kAt = kDataHeaderBytes + kPayload;  // start of the second frame
  for (size_t bit = 0; bit < 8 * kDataHeaderBytes; ++bit) {
    Bytes stream = good;
    stream[kAt + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    RecordingOwner owner;
    FrameReader reader(owner, kTag, scratch_);
    deliver(stream, 0, kAt + kDataHeaderBytes);
    ASSERT_EQ(pump_all(reader).status.code(), Code::remote) << bit;
    ASSERT_TRUE(reader.corrupted()) << bit;
    ASSERT_EQ(owner.headers, 1) << bit;
  }
}

TEST_F(FrameReaderTest, RefusesFramesThatAreNotTheNextOfTheirStream) {
  for (const uint32_t second : {0u, 2u}) {
    Bytes stream;
    append_frame(stream, chunk_header(0));
    append_frame(stream, chunk_header(second));
    RecordingOwner owner;
    FrameReader reader(owner, kTag, scratch_);
    deliver(stream, 0, stream.size());
    EXPECT_EQ(pump_all(reader).status.code(), Code::remote);
    EXPECT_TRUE(reader.corrupted());
    EXPECT_EQ(owner.headers, 1);
  }
}

TEST_F(FrameReaderTest, EndsWithTheOwnersRefusal) {
  owner_.refuse = true;
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  EXPECT_EQ(pump_all(reader).status.message(), "refused by the owner");
  EXPECT_FALSE(reader.corrupted());
  EXPECT_TRUE(owner_.frames.empty());
  FrameReader second(owner_, kTag, scratch_);
  EXPECT_FALSE(second.prefill(stream).ok());
}

TEST_F(FrameReaderTest, SaysWhyTheConnectionEnded) {
  const Bytes stream = three_frames();
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, 300);
  connection_.end_reads({IoKind::closed, 0, 0});
  EXPECT_EQ(pump_all(reader).end.kind, IoKind::closed);
  connection_.end_reads({IoKind::failed, 0, ECONNRESET});
  const auto failed = reader.pump(connection_, 100);
  EXPECT_TRUE(failed.status.ok());
  EXPECT_EQ(failed.end.kind, IoKind::failed);
  EXPECT_EQ(failed.end.error, ECONNRESET);
}

DataHeader message_header(uint64_t message, uint32_t payload_bytes) {
  DataHeader h;
  h.message = MessageNo(message);
  h.message_bytes = h.payload_bytes = payload_bytes;
  h.chunk_bytes = std::max(payload_bytes, 64u);
  h.transmission = message;
  return h;
}

TEST_F(FrameReaderTest, StopsWhenItsBudgetIsUsedUp) {
  Bytes stream;
  for (uint32_t i = 0; i < 10; ++i) append_frame(stream, message_header(i, 50'000));
  owner_.placement = Placement::early;
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  const auto pumped = reader.pump(connection_, 100'000);
  EXPECT_EQ(pumped.end.kind, IoKind::progressed);
  EXPECT_GE(reader.bytes(), 100'000u);
  EXPECT_LT(reader.bytes(), 200'000u);
  EXPECT_TRUE(pump_all(reader).status.ok());
  EXPECT_EQ(owner_.frames.size(), 10u);
}

TEST_F(FrameReaderTest, TakesALargePayloadAndTheNextHeaderWithOneRead) {
  Bytes stream;
  for (uint32_t i = 0; i < 20; ++i) append_frame(stream, message_header(i, 50'000));
  owner_.placement = Placement::early;
  FrameReader reader(owner_, kTag, scratch_);
  deliver(stream, 0, stream.size());
  (void)reader.pump(connection_, stream.size());
  // The first header may come alone; then each payload with the header that follows it.
  EXPECT_LE(connection_.reads(), 22u);
}

TEST_F(FrameReaderTest, ReadsLargeAndSmallFramesInAnyMixture) {
  std::mt19937 random(1);
  constexpr uint32_t kSizes[] = {0, 1, 100, 4000, 12'192, 12'193, 30'000};
  for (int round = 0; round < 200; ++round) {
    Bytes stream;
    std::vector<DataHeader> sent;
    for (uint64_t i = 0; i < 12; ++i) {
      sent.push_back(message_header(i, kSizes[random() % std::size(kSizes)]));
      append_frame(stream, sent.back());
    }
    RecordingOwner owner;
    owner.placement = Placement::early;
    FrameReader reader(owner, kTag, scratch_);
    for (size_t at = 0; at < stream.size();) {
      const size_t part = std::min<size_t>(1 + random() % 20'000, stream.size() - at);
      deliver(stream, at, at + part);
      at += part;
    }
    while (reader.bytes() < stream.size()) {
      ASSERT_TRUE(reader.pump(connection_, 1 + random() % 40'000).status.ok());
    }
    ASSERT_EQ(owner.frames.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      ASSERT_EQ(owner.frames[i].header, sent[i]);
      ASSERT_EQ(owner.frames[i].early, payload_of(sent[i]));
    }
    (void)reader.pump(connection_, 1);  // leaves no bytes for the next round
  }
}

TEST(FrameReader, TakesAnyBytes) {
  std::mt19937 random(5);
  for (int run = 0; run < 3000; ++run) {
    Bytes input(random() % 1000);
    for (std::byte& byte : input) byte = static_cast<std::byte>(random());
    if (run % 2 == 0) {  // headers with valid tags
      for (size_t at = 0; at < input.size(); at += 1 + kDataHeaderBytes) input[at] |= std::byte{31};
    }
    fuzz_frame_reader(input);
  }
}

}  // namespace
}  // namespace r2ccl
