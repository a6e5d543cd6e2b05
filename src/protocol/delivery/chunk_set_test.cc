#include "protocol/delivery/chunk_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace r2ccl {
namespace {

TEST(ChunkSet, TakesEachChunkOnce) {
  ChunkSet set(3);
  EXPECT_TRUE(set.insert(1));
  EXPECT_FALSE(set.insert(1));
  EXPECT_TRUE(set.contains(1));
  EXPECT_FALSE(set.contains(0));
  EXPECT_FALSE(set.contains(2));
  EXPECT_EQ(set.size(), 1u);
}

TEST(ChunkSet, IsFullOnlyWhenEveryChunkIsThere) {
  ChunkSet set(2);
  EXPECT_FALSE(set.full());
  set.insert(1);
  EXPECT_FALSE(set.full());
  set.insert(0);
  EXPECT_TRUE(set.full());
}

TEST(ChunkSet, PrefixSkipsChunksThatCameEarlier) {
  ChunkSet set(5);
  set.insert(1);
  set.insert(2);
  EXPECT_EQ(set.prefix(), 0u);
  set.insert(0);
  EXPECT_EQ(set.prefix(), 3u);
  set.insert(4);
  EXPECT_EQ(set.prefix(), 3u);
}

TEST(ChunkSet, BitmapStartsAtThePrefixAndHasNoZeroBytesAtItsEnd) {
  ChunkSet set(100);
  EXPECT_TRUE(set.bitmap(128).empty());
  set.insert(0);
  EXPECT_TRUE(set.bitmap(128).empty());  // the prefix describes all
  set.insert(3);                         // prefix 1: bit 2
  EXPECT_EQ(set.bitmap(128), std::vector{std::byte{0b100}});
  set.insert(1 + 8);
  EXPECT_EQ(set.bitmap(128), (std::vector{std::byte{0b100}, std::byte{1}}));
  EXPECT_EQ(set.bitmap(1), std::vector{std::byte{0b100}});
}

TEST(ChunkSet, AgreesWithASetOfIntegers) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    const auto count = static_cast<uint32_t>(1 + random() % 300);
    ChunkSet set(count);
    std::set<uint32_t> model;
    while (model.size() < count) {
      const auto chunk = static_cast<uint32_t>(random() % count);
      ASSERT_EQ(set.insert(chunk), model.insert(chunk).second);
      uint32_t prefix = 0;
      while (model.contains(prefix)) ++prefix;
      ASSERT_EQ(set.prefix(), prefix);
      ASSERT_EQ(set.size(), model.size());
      const auto bitmap = set.bitmap(16);
      for (uint32_t bit = 0; bit < 128; ++bit) {
        const bool shown = bit / 8 < bitmap.size() &&
                           (bitmap[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0};
        ASSERT_EQ(shown, model.contains(prefix + bit)) << "bit " << bit << " of " << count;
      }
    }
    ASSERT_TRUE(set.full());
  }
}

}  // namespace
}  // namespace r2ccl
