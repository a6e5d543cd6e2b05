#include "protocol/wire/header_tag.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace r2ccl {
namespace {

using Key = std::array<std::byte, kMacKeyBytes>;
using Use = HeaderTag::Use;

constexpr Key kKey{std::byte{1}, std::byte{2}};
constexpr Key kOtherKey{std::byte{1}, std::byte{3}};

std::array<std::byte, kDataHeaderBytes> data_header() {
  DataHeader header;
  header.channel = ChannelId(3);
  header.message = MessageNo(77);
  header.message_bytes = header.payload_bytes = header.chunk_bytes = 4096;
  header.transmission = 12;
  header.incarnation = Incarnation(5);
  header.context = 0x0123456789abcdef;
  std::array<std::byte, kDataHeaderBytes> bytes;
  encode(header, bytes);
  return bytes;
}

template <size_t N>
void flip(std::array<std::byte, N>& bytes, size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
}

TEST(HeaderTag, FitsTheSealedHeaderAndNoneThatDiffersInABit) {
  const HeaderTag tag(kKey, Use::data);
  auto bytes = data_header();
  EXPECT_FALSE(tag.fits(bytes));
  tag.seal(bytes);
  ASSERT_TRUE(tag.fits(bytes));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    flip(bytes, bit);
    EXPECT_FALSE(tag.fits(bytes)) << bit;
    flip(bytes, bit);
  }
  EXPECT_TRUE(tag.fits(bytes));
}

TEST(HeaderTag, FitsNoOtherControlHeaderAndNoOtherPlace) {
  const HeaderTag tag(kKey, Use::control);
  std::array<std::byte, kControlHeaderBytes> bytes{std::byte{'R'}, std::byte{'2'}};
  tag.seal(bytes, 7);
  ASSERT_TRUE(tag.fits(bytes, 7));
  for (const uint64_t sequence : {uint64_t{6}, uint64_t{8}, uint64_t{7} << 32}) {
    EXPECT_FALSE(tag.fits(bytes, sequence));
  }
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    flip(bytes, bit);
    EXPECT_FALSE(tag.fits(bytes, 7)) << bit;
    flip(bytes, bit);
  }
}

TEST(HeaderTag, DoesNotFitInAnotherSessionOrForAnotherUse) {
  auto bytes = data_header();
  HeaderTag(kKey, Use::data).seal(bytes);
  EXPECT_FALSE(HeaderTag(kOtherKey, Use::data).fits(bytes));
  EXPECT_FALSE(HeaderTag(kKey, Use::control).fits(bytes));
}

TEST(HeaderTag, FitsTheSealedStateAndNoneThatDiffersInABit) {
  const HeaderTag tag(kKey, Use::data);
  ControlFrame frame;
  frame.control_sequence = 12;
  std::vector<std::byte> bytes;
  encode_carried_state(frame, bytes);
  ASSERT_EQ(bytes.size(), kControlFixedBytes + kStateTagBytes);
  EXPECT_FALSE(tag.fits_state(bytes));
  tag.seal_state(bytes);
  ASSERT_TRUE(tag.fits_state(bytes));
  EXPECT_FALSE(HeaderTag(kOtherKey, Use::data).fits_state(bytes));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(tag.fits_state(bytes)) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
  EXPECT_FALSE(tag.fits_state(std::span(bytes).first(kStateTagBytes - 1)));
}

TEST(HeaderTag, LeavesTheHeaderAsItWas) {
  auto bytes = data_header();
  const auto before = bytes;
  HeaderTag(kKey, Use::data).seal(bytes);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + kDataTagAt, bytes.begin()));
}

}  // namespace
}  // namespace r2ccl
