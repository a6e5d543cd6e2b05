#include "protocol/wire/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>

#include "base/limits.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using HeaderBytes = std::array<std::byte, kDataHeaderBytes>;

class Rng {
 public:
  explicit Rng(uint64_t seed) : engine_(seed) {}
  uint64_t any() {
    // Large values are as likely as small ones, so the test exercises every byte of a field.
    return engine_() >> (engine_() % 64);
  }
  uint64_t below(uint64_t bound) { return engine_() % bound; }
  Bytes bytes(size_t count) {
    Bytes out(count);
    for (std::byte& b : out) b = static_cast<std::byte>(engine_());
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

DataHeader random_header(Rng& rng) {
  DataHeader h;
  h.type = rng.below(8) == 0 ? FrameType::probe : FrameType::chunk;
  h.eager = rng.below(2) == 1;
  h.incarnation = Incarnation(static_cast<uint32_t>(rng.any()));
  h.transmission = rng.any();
  h.channel = ChannelId(rng.any());
  h.message = MessageNo(rng.any());
  h.context = rng.any();
  h.checksum = static_cast<uint32_t>(rng.any());
  constexpr size_t kStateMin = kControlFixedBytes + kStateTagBytes;
  if (rng.below(2) == 1) {
    h.state_bytes =
        static_cast<uint16_t>(kStateMin + rng.below(limits::kCarriedStateBytesMax + 1 - kStateMin));
  }
  h.chunk_bytes = static_cast<uint32_t>(64 * (1 + rng.below(limits::kChunkBytesMax / 64)));
  h.message_bytes = rng.below(limits::kMessageBytesMax + 1);
  if (h.message_bytes > 0) {
    const uint64_t chunks = (h.message_bytes + h.chunk_bytes - 1) / h.chunk_bytes;
    h.offset = rng.below(chunks) * h.chunk_bytes;
    h.payload_bytes =
        static_cast<uint32_t>(std::min<uint64_t>(h.chunk_bytes, h.message_bytes - h.offset));
  }
  return h;
}

HeaderBytes encoded(const DataHeader& header) {
  HeaderBytes bytes;
  encode(header, bytes);
  return bytes;
}

ControlFrame random_frame(Rng& rng) {
  ControlFrame f;
  f.control_sequence = rng.any();
  f.version = rng.any();
  f.counted = rng.any();
  f.acknowledged = rng.any();
  f.notices_applied = rng.any();
  f.sent_at = rng.any();
  f.ping = static_cast<uint32_t>(rng.any());
  f.pong = static_cast<uint32_t>(rng.any());
  f.goodbye = rng.below(2) == 1;
  f.wants_data = rng.below(2) == 1;
  for (uint64_t i = rng.below(4); i > 0; --i) {
    PathReport& p = f.paths.emplace_back();
    p.path = PathId(static_cast<uint16_t>(rng.any()));
    p.incarnation = Incarnation(static_cast<uint32_t>(rng.any()));
    p.phase = static_cast<PathPhase>(rng.below(4));
    p.cause = static_cast<DownCause>(rng.below(10));
    p.frames_received = rng.any();
    p.arrived_at = rng.any();
    p.control_received = rng.any();
  }
  for (uint64_t i = rng.below(4); i > 0; --i) {
    ChannelReport& c = f.channels.emplace_back();
    c.channel = ChannelId(rng.any());
    c.low_water = MessageNo(rng.any());
    c.posted = MessageNo(rng.any());
    c.eager_total = rng.any();
    c.discards = rng.below(2) == 1;
    for (uint64_t k = rng.below(4); k > 0; --k) {
      c.partial.push_back({MessageNo(rng.any()), static_cast<uint32_t>(rng.any()),
                           rng.bytes(rng.below(limits::kAckBitmapChunks / 8 + 1))});
    }
  }
  for (uint64_t i = rng.below(3); i > 0; --i) {
    f.notices.push_back({rng.any(), rng.bytes(rng.below(100))});
  }
  return f;
}

Bytes encoded(const ControlFrame& frame) {
  Bytes bytes;
  encode(frame, bytes);
  return bytes;
}

std::span<const std::byte> body_of(const Bytes& frame) {
  return std::span(frame).subspan(kControlHeaderBytes);
}

// Returns a frame with one of everything, with room to find each field by its place.
ControlFrame full_frame() {
  ControlFrame f;
  f.control_sequence = 1;
  f.version = 2;
  f.acknowledged = 3;
  f.ping = 5;
  f.paths.push_back({PathId(7), Incarnation(2), PathPhase::up, DownCause::none, 10, 12, 13});
  f.channels.push_back({ChannelId(9),
                        MessageNo(4),
                        MessageNo(8),
                        4096,
                        {{MessageNo(5), 3, Bytes(2, std::byte{5})}}});
  f.notices.push_back({6, Bytes(5, std::byte{1})});
  return f;
}

TEST(DataHeader, EveryFieldComesBackAsItWasSent) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const DataHeader header = random_header(rng);
    const auto decoded = decode_data_header(encoded(header));
    ASSERT_TRUE(decoded.ok()) << i << ": " << decoded.status().message();
    ASSERT_TRUE(decoded.value().known);
    ASSERT_EQ(decoded.value().header, header) << i;
  }
}

// If encode() and decode() both forgot a field, both frames would still compare equal. So each
// field must change the bytes, and no two fields the same ones.
TEST(DataHeader, EachFieldHasBytesOfItsOwn) {
  const DataHeader zero;
  const HeaderBytes base = encoded(zero);
  std::vector<DataHeader> variants(12, zero);
  variants[0].type = FrameType::probe;
  variants[1].eager = true;
  variants[2].payload_bytes = 1;
  variants[3].incarnation = Incarnation(1);
  variants[4].transmission = 1;
  variants[5].channel = ChannelId(1);
  variants[6].message = MessageNo(1);
  variants[7].message_bytes = 1;
  variants[8].offset = 1;
  variants[9].chunk_bytes = 1;
  variants[10].context = 1;
  variants[11].checksum = 1;
  std::set<size_t> taken;
  for (const DataHeader& variant : variants) {
    const HeaderBytes bytes = encoded(variant);
    size_t changed = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == base[i]) continue;
      ++changed;
      EXPECT_TRUE(taken.insert(i).second) << "byte " << i;
    }
    EXPECT_EQ(changed, 1u);
  }
}

TEST(DataHeader, KeepsSixteenBytesFreeForPayloadAuthentication) {
  Rng rng(2);
  for (int i = 0; i < 100; ++i) {
    const HeaderBytes bytes = encoded(random_header(rng));
    EXPECT_TRUE(
        std::all_of(bytes.end() - 16, bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(DataHeader, RefusesSizesThatContradictEachOther) {
  DataHeader good;
  good.chunk_bytes = 4096;
  good.message_bytes = 10'000;
  good.offset = 8192;
  good.payload_bytes = 1808;
  ASSERT_TRUE(decode_data_header(encoded(good)).ok());
  const auto refused = [](DataHeader bad) { return !decode_data_header(encoded(bad)).ok(); };

  DataHeader bad = good;
  bad.payload_bytes = 1809;  // beyond the end of the message
  EXPECT_TRUE(refused(bad));
  bad.payload_bytes = 1807;  // a gap at the end
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.offset = 8193;  // between two chunks
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.offset = 12'288;  // outside
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.chunk_bytes = 0;  // would divide by zero
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.message_bytes = 0;
  EXPECT_TRUE(refused(bad));
  bad = {};
  bad.chunk_bytes = limits::kChunkBytesMax + 64;
  bad.message_bytes = bad.chunk_bytes;
  bad.payload_bytes = bad.chunk_bytes;
  EXPECT_TRUE(refused(bad));
}

// (message_bytes + chunk_bytes - 1) / chunk_bytes must not wrap round to a count of no chunks.
TEST(DataHeader, RefusesAMessageLargerThanAnyMayBe) {
  DataHeader header;
  header.chunk_bytes = 64;
  header.payload_bytes = 64;
  header.message_bytes = limits::kMessageBytesMax;
  EXPECT_TRUE(decode_data_header(encoded(header)).ok());
  for (const uint64_t bytes : {limits::kMessageBytesMax + 1, UINT64_MAX - 63, UINT64_MAX}) {
    header.message_bytes = bytes;
    EXPECT_FALSE(decode_data_header(encoded(header)).ok()) << bytes;
  }
}

TEST(DataHeader, RefusesStateOfAnImpossibleSize) {
  for (uint32_t bytes = 0; bytes <= UINT16_MAX; ++bytes) {
    DataHeader header;
    header.state_bytes = static_cast<uint16_t>(bytes);
    const bool fits = bytes == 0 || (bytes >= kControlFixedBytes + kStateTagBytes &&
                                     bytes <= limits::kCarriedStateBytesMax);
    EXPECT_EQ(decode_data_header(encoded(header)).ok(), fits) << bytes;
  }
}

TEST(CarriedState, ComesBackAsItWasSentAndHasNoPartOfAControlStream) {
  Rng rng(11);
  for (int i = 0; i < 300; ++i) {
    ControlFrame frame = random_frame(rng);
    frame.ping = frame.pong = 0;
    frame.goodbye = false;
    frame.notices.clear();
    const auto decode = [](const ControlFrame& sent) {
      Bytes bytes;
      encode_carried_state(sent, bytes);
      EXPECT_EQ(bytes.size(), encoded_body_bytes(sent) + kStateTagBytes);
      return decode_carried_state(bytes);
    };
    ASSERT_TRUE(decode(frame).ok());
    EXPECT_EQ(decode(frame).value(), frame);
    ControlFrame more = frame;
    more.ping = 1;
    EXPECT_FALSE(decode(more).ok());
    more = frame;
    more.pong = 1;
    EXPECT_FALSE(decode(more).ok());
    more = frame;
    more.goodbye = true;
    EXPECT_FALSE(decode(more).ok());
    more = frame;
    more.notices.push_back({1, Bytes(3)});
    EXPECT_FALSE(decode(more).ok());
  }
  EXPECT_FALSE(decode_carried_state(Bytes(kStateTagBytes - 1)).ok());
}

TEST(DataHeader, GivesTheBytesToSkipForAnUnknownType) {
  DataHeader header;
  header.payload_bytes = 777;
  header.transmission = 5;
  header.incarnation = Incarnation(3);
  for (int type = 0; type < 256; ++type) {
    HeaderBytes bytes = encoded(header);
    bytes[5] = static_cast<std::byte>(type);
    const auto decoded = decode_data_header(bytes);
    if (type == static_cast<int>(FrameType::chunk)) {
      EXPECT_FALSE(decoded.ok());  // as a chunk these sizes make no sense
      continue;
    }
    ASSERT_TRUE(decoded.ok()) << type;
    EXPECT_EQ(decoded.value().known, type == static_cast<int>(FrameType::probe));
    EXPECT_EQ(decoded.value().header.payload_bytes, 777u);
    EXPECT_EQ(decoded.value().header.transmission, 5u);
  }
  header.payload_bytes = limits::kChunkBytesMax + 1;  // too much for any reader to skip
  HeaderBytes bytes = encoded(header);
  bytes[5] = std::byte{200};
  EXPECT_FALSE(decode_data_header(bytes).ok());
}

TEST(DataHeader, WithAnyBitFlippedIsRefusedOrWithinBounds) {
  Rng rng(3);
  for (int i = 0; i < 50; ++i) {
    const HeaderBytes good = encoded(random_header(rng));
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Bytes input = {std::byte{0}};
      input.insert(input.end(), good.begin(), good.end());
      input[1 + bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      fuzz_wire(input);
      if (bit / 8 < 5) {  // magic and version
        EXPECT_FALSE(decode_data_header(std::span(input).subspan<1, kDataHeaderBytes>()).ok());
      }
    }
  }
}

TEST(ControlFrame, IsAsLargeAsItWasCountedToBe) {
  Rng rng(11);
  for (int i = 0; i < 1000; ++i) {
    const ControlFrame frame = random_frame(rng);
    ASSERT_EQ(encoded_body_bytes(frame), body_of(encoded(frame)).size()) << i;
  }
}

TEST(ControlFrame, EveryFieldComesBackAsItWasSent) {
  Rng rng(4);
  for (int i = 0; i < 5'000; ++i) {
    const ControlFrame frame = random_frame(rng);
    const Bytes bytes = encoded(frame);
    const auto body = decode_control_header(std::span(bytes).first<kControlHeaderBytes>());
    ASSERT_TRUE(body.ok());
    ASSERT_EQ(body.value(), bytes.size() - kControlHeaderBytes);
    const auto decoded = decode_control_body(body_of(bytes));
    ASSERT_TRUE(decoded.ok()) << i << ": " << decoded.status().message();
    ASSERT_EQ(decoded.value(), frame) << i;
  }
}

TEST(ControlFrame, IsAppendedToTheBuffer) {
  Bytes out(7, std::byte{9});
  encode(full_frame(), out);
  EXPECT_EQ(Bytes(out.begin() + 7, out.end()), encoded(full_frame()));
  EXPECT_EQ(out[6], std::byte{9});
}

TEST(ControlFrame, IsRefusedWhenTruncatedAnywhere) {
  Rng rng(5);
  for (int i = 0; i < 20; ++i) {
    const Bytes bytes = encoded(i == 0 ? full_frame() : random_frame(rng));
    for (size_t size = 0; size < body_of(bytes).size(); ++size) {
      const Bytes cut(body_of(bytes).begin(),
                      body_of(bytes).begin() + static_cast<ptrdiff_t>(size));
      ASSERT_FALSE(decode_control_body(cut).ok()) << size;
    }
  }
}

TEST(ControlFrame, FromALaterMinorVersionMayBeLonger) {
  Bytes bytes = encoded(full_frame());
  bytes.insert(bytes.end(), 10, std::byte{0x77});
  const auto decoded = decode_control_body(body_of(bytes));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), full_frame());
}

TEST(ControlFrame, WithAnyByteChangedIsRefusedOrWithinBounds) {
  const Bytes good = encoded(full_frame());
  for (size_t at = kControlHeaderBytes; at < good.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      Bytes input = {std::byte{2}};
      input.insert(input.end(), good.begin() + kControlHeaderBytes, good.end());
      input[1 + at - kControlHeaderBytes] ^= static_cast<std::byte>(flip);
      fuzz_wire(input);
    }
  }
}

TEST(ControlFrame, HeaderRefusesWrongMagicVersionAndSize) {
  const Bytes good = encoded(full_frame());
  for (size_t at = 0; at < 5; ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{1};
    EXPECT_FALSE(decode_control_header(std::span(bad).first<kControlHeaderBytes>()).ok()) << at;
  }
  Bytes huge = good;
  huge[11] = std::byte{1};  // 16 MB
  EXPECT_FALSE(decode_control_header(std::span(huge).first<kControlHeaderBytes>()).ok());
}

TEST(ControlFrame, RefusesMoreEntriesThanAnHonestPeerHas) {
  ControlFrame frame;
  frame.paths.resize(limits::kPathsMax);
  EXPECT_TRUE(decode_control_body(body_of(encoded(frame))).ok());
  frame.paths.resize(limits::kPathsMax + 1);
  EXPECT_FALSE(decode_control_body(body_of(encoded(frame))).ok());

  frame = {};
  frame.channels.emplace_back().partial.push_back(
      {MessageNo(0), 0, Bytes(limits::kAckBitmapChunks / 8 + 1)});
  EXPECT_FALSE(decode_control_body(body_of(encoded(frame))).ok());

  frame = {};
  frame.notices.push_back({0, Bytes(limits::kNoticeBytesMax + 1)});
  EXPECT_FALSE(decode_control_body(body_of(encoded(frame))).ok());
}

TEST(ControlFrame, ReadsAPhaseOrCauseOfALaterVersionAsTheOneWithTheLeastEffect) {
  // The path entry begins after 57 bytes of fixed fields and 6 of counts: id 2, incarnation 4.
  constexpr size_t kPhaseAt = kControlHeaderBytes + 57 + 6 + 6;
  Bytes bytes = encoded(full_frame());
  ASSERT_EQ(bytes[kPhaseAt], static_cast<std::byte>(PathPhase::up));
  for (int later = 4; later < 256; ++later) {
    bytes[kPhaseAt] = static_cast<std::byte>(later);
    bytes[kPhaseAt + 1] = static_cast<std::byte>(later + 7);
    const auto decoded = decode_control_body(body_of(bytes));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded.value().paths[0].phase, PathPhase::validating);
    if (later + 7 < 256) {
      EXPECT_EQ(decoded.value().paths[0].cause, DownCause::none);
    }
    EXPECT_EQ(decoded.value().paths[0].frames_received, 10u);
  }
}

TEST(DownCause, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int cause = 0; cause <= static_cast<int>(DownCause::tampered); ++cause) {
    EXPECT_TRUE(names.insert(to_string(static_cast<DownCause>(cause))).second);
  }
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(WireCodec, SurvivesGarbageAndMutations) {
  Rng rng(6);
  for (int i = 0; i < 60'000; ++i) {
    Bytes input;
    if (i % 2 == 0) {
      input = rng.bytes(1 + rng.below(200));
    } else {
      const bool data = rng.below(2) == 0;
      input.push_back(data ? std::byte{0} : std::byte{2});
      if (data) {
        const HeaderBytes bytes = encoded(random_header(rng));
        input.insert(input.end(), bytes.begin(), bytes.end());
      } else {
        const Bytes bytes = encoded(random_frame(rng));
        input.insert(input.end(), bytes.begin() + kControlHeaderBytes, bytes.end());
      }
      for (uint64_t k = rng.below(4); k > 0; --k) {
        input[1 + rng.below(input.size() - 1)] = static_cast<std::byte>(rng.any());
      }
    }
    fuzz_wire(input);
  }
}

}  // namespace
}  // namespace r2ccl
