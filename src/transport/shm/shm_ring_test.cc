#include "transport/shm/shm_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace r2ccl {
namespace {

constexpr size_t kBytes = 4096;

class ShmRingTest : public testing::Test {
 protected:
  static iovec slice(void* data, size_t bytes) { return {.iov_base = data, .iov_len = bytes}; }
  ShmRingWriter::Moved write(size_t bytes) {
    std::vector<uint8_t> data(bytes);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(written_++);
    const iovec one = slice(data.data(), data.size());
    const ShmRingWriter::Moved moved = writer_.write({&one, 1});
    written_ -= bytes - moved.bytes;
    return moved;
  }
  // Reads at most `most` bytes and checks each.
  ShmRingReader::Moved read(size_t most) {
    std::vector<uint8_t> data(most);
    const iovec one = slice(data.data(), data.size());
    reader_.look();
    const ShmRingReader::Moved moved = reader_.read({&one, 1});
    for (size_t i = 0; i < moved.bytes; ++i) {
      EXPECT_EQ(data[i], static_cast<uint8_t>(read_)) << "byte " << read_;
      ++read_;
    }
    return moved;
  }

  ShmRingState state_{};
  std::vector<std::byte> ring_ = std::vector<std::byte>(kBytes);
  ShmRingWriter writer_{state_, ring_.data(), kBytes};
  ShmRingReader reader_{state_, ring_.data(), kBytes};
  uint64_t written_ = 0;
  uint64_t read_ = 0;
};

TEST_F(ShmRingTest, BytesArriveInOrderAcrossTheEndOfTheRing) {
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(write(1500).bytes, 1500U);
    EXPECT_EQ(write(700).bytes, 700U);
    EXPECT_EQ(read(2100).bytes, 2100U);  // 100 bytes stay, so the ring is never drained
    EXPECT_EQ(read(50).bytes, 50U);
    EXPECT_EQ(read(50).bytes, 50U);
  }
  EXPECT_EQ(read(1).bytes, 0U);
}

TEST_F(ShmRingTest, AFullRingTakesNoMoreThanItHolds) {
  EXPECT_EQ(write(kBytes + 5).bytes, kBytes);
  EXPECT_EQ(write(1).bytes, 0U);
  EXPECT_FALSE(writer_.has_space());
  EXPECT_EQ(read(10).bytes, 10U);
  EXPECT_FALSE(writer_.has_space()) << "a writer that waits is told when half of the ring is free";
  EXPECT_EQ(write(20).bytes, 10U);
  EXPECT_EQ(read(kBytes).bytes, kBytes);
  EXPECT_TRUE(writer_.has_space());
}

TEST_F(ShmRingTest, ADrainedRingBeginsAgainAtItsFirstByte) {
  for (int round = 0; round < 1000; ++round) {
    EXPECT_EQ(write(100).bytes, 100U);
    EXPECT_EQ(read(200).bytes, 100U);
  }
  for (size_t i = 100; i < kBytes; ++i) ASSERT_EQ(ring_[i], std::byte{}) << "byte " << i;
}

TEST_F(ShmRingTest, SlicesMayBeEmpty) {
  uint32_t data = 0x01020304;
  const iovec out[] = {slice(nullptr, 0), slice(&data, 2), slice(nullptr, 0), slice(&data, 4)};
  EXPECT_EQ(writer_.write(out).bytes, 6U);
  uint32_t a = 0;
  uint16_t b = 0;
  const iovec in[] = {slice(&b, 2), slice(nullptr, 0), slice(&a, 4)};
  reader_.look();
  EXPECT_EQ(reader_.read(in).bytes, 6U);
  EXPECT_EQ(a, data);
}

TEST_F(ShmRingTest, AnImpossibleIndexOfTheOtherEndIsFoundAndNoByteMoves) {
  write(100);
  for (const uint64_t forged : {uint64_t{kBytes + 1}, UINT64_MAX, uint64_t{1} << 63}) {
    state_.head.store(forged);
    EXPECT_TRUE(reader_.has_bytes());
    EXPECT_EQ(read(kBytes).index, ShmIndex::impossible);
  }
  // More bytes read than were written, or too few.
  for (const uint64_t forged : {uint64_t{101}, 100 - uint64_t{kBytes + 1}, uint64_t{1} << 63}) {
    state_.tail.store(forged);
    EXPECT_TRUE(writer_.has_space());
    EXPECT_EQ(write(1).index, ShmIndex::impossible);
  }
}

TEST_F(ShmRingTest, AForgedOriginLeadsNowhereOutsideTheRing) {
  const auto exact = std::make_unique<std::byte[]>(kBytes);  // a sanitizer guards its ends
  ShmRingReader reader(state_, exact.get(), kBytes);
  state_.head.store(kBytes);
  state_.origin.store(0x123456789abcdef1);
  std::vector<uint8_t> data(kBytes);
  const iovec one = slice(data.data(), data.size());
  reader.look();
  EXPECT_EQ(reader.read({&one, 1}).bytes, kBytes);
}

TEST_F(ShmRingTest, AnEndThatWaitsIsWokenOnceAndOnlyWhenItCanGoOn) {
  EXPECT_FALSE(write(10).wake);
  reader_.set_waiting(true);
  EXPECT_TRUE(write(10).wake);
  EXPECT_FALSE(write(10).wake);
  EXPECT_EQ(write(kBytes).bytes, kBytes - 30);
  writer_.set_waiting(true);
  EXPECT_FALSE(read(kBytes / 2 - 1).wake);
  EXPECT_TRUE(read(1).wake);
  EXPECT_FALSE(read(1).wake);
}

TEST_F(ShmRingTest, TwoThreadsMoveManyBytesUnchanged) {
  constexpr size_t kAll = 4'000'000;
  std::thread writes([&] {
    for (size_t done = 0; done < kAll;) {
      const size_t moved = write(std::min<size_t>(kAll - done, 1 + done % 1777)).bytes;
      if (moved == 0) std::this_thread::yield();
      done += moved;
    }
  });
  while (read_ < kAll) {
    if (read(1 + read_ % 2049).bytes == 0) std::this_thread::yield();
  }
  writes.join();
  EXPECT_FALSE(reader_.has_bytes());
}

}  // namespace
}  // namespace r2ccl
