#include "transport/shm/shm_reference.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

using Memory = std::vector<std::byte>;

Memory memory_of(size_t bytes, int value) {
  return Memory(bytes, static_cast<std::byte>(value));
}

class ShmReferenceTest : public testing::Test {
 protected:
  ShmReferenceTest() { reader_.set_memory(own_memory()); }
  PeerMemory own_memory(uint64_t word = kWord) const {
    return {getpid(), reinterpret_cast<uintptr_t>(&word_), word};
  }
  int fetch(Memory& into) {
    const iovec one{into.data(), into.size()};
    return reader_.fetch({&one, 1}, into.size());
  }

  static constexpr uint64_t kWord = 0x1234567890abcdef;
  const uint64_t word_ = kWord;
  ShmRingState ring_{};
  ShmReferenceState state_{};
  ShmReferenceWriter writer_{ring_, state_};
  ShmReferenceReader reader_{ring_, state_};
};

TEST_F(ShmReferenceTest, BytesAreFetchedFromWhereTheyAre) {
  Memory source = memory_of(100, 1);
  writer_.add(0, source);
  std::ranges::fill(source, std::byte{2});
  Memory got(100);
  EXPECT_EQ(fetch(got), 0);
  EXPECT_EQ(got, memory_of(100, 2)) << "the source has not been copied before";
  EXPECT_FALSE(reader_.ready(0));
}

TEST_F(ShmReferenceTest, AReferenceIsFetchedInPartsAndIntoSeveralSlices) {
  Memory source(1000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  writer_.add(0, source);
  Memory got(1000);
  const iovec parts[] = {{got.data(), 10}, {got.data() + 10, 200}};
  EXPECT_EQ(reader_.next(0).bytes, 1000U);
  EXPECT_EQ(reader_.fetch(parts, 210), 0);
  EXPECT_EQ(reader_.next(0).bytes, 790U);
  reader_.skip(90);
  const iovec rest{got.data() + 300, 700};
  EXPECT_EQ(reader_.fetch({&rest, 1}, 700), 0);
  EXPECT_FALSE(reader_.ready(0));
  std::fill(source.begin() + 210, source.begin() + 300, std::byte{0});
  EXPECT_EQ(got, source);
}

TEST_F(ShmReferenceTest, AReferenceIsHereWhenTheBytesBeforeItWereRead) {
  const Memory source = memory_of(10, 1);
  writer_.add(100, source);
  EXPECT_FALSE(reader_.ready(0));
  EXPECT_EQ(reader_.next(0).ring_bytes, 100U);
  EXPECT_EQ(reader_.next(99).ring_bytes, 1U);
  EXPECT_TRUE(reader_.ready(100));
}

TEST_F(ShmReferenceTest, AsManyWaitAsThereAreSlotsAgainAndAgain) {
  const Memory source = memory_of(10, 1);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kShmReferences; ++i) {
      ASSERT_TRUE(writer_.ready());
      writer_.add(0, source);
    }
    EXPECT_FALSE(writer_.ready());
    for (size_t i = 0; i < kShmReferences; ++i) {
      ASSERT_EQ(reader_.next(0).bytes, 10U);
      reader_.skip(10);
    }
  }
  EXPECT_FALSE(reader_.ready(0));
}

TEST_F(ShmReferenceTest, AWriterIsNotReadyForAReaderThatCannotFetch) {
  EXPECT_TRUE(writer_.ready());
  state_.fetches.store(0);
  EXPECT_FALSE(writer_.ready());
}

TEST_F(ShmReferenceTest, ASourceMayChangeOnceItIsReleased) {
  Memory first = memory_of(1000, 1);
  Memory second = memory_of(1000, 2);
  writer_.add(0, first);
  writer_.add(0, second);
  Memory got(400);
  EXPECT_EQ(fetch(got), 0);
  writer_.release();
  std::ranges::fill(first, std::byte{8});
  std::ranges::fill(second, std::byte{9});
  writer_.release();  // again, of the copies
  got.resize(600);
  EXPECT_EQ(fetch(got), 0);
  EXPECT_EQ(got, memory_of(600, 1));
  got.resize(1000);
  EXPECT_EQ(fetch(got), 0);
  EXPECT_EQ(got, memory_of(1000, 2));
  EXPECT_FALSE(reader_.ready(0));
}

TEST_F(ShmReferenceTest, ARevokedReferenceIsAnErrorAndTheOneBeforeItWasFetched) {
  const Memory source = memory_of(10, 1);
  Memory got(10);
  writer_.add(0, source);
  writer_.add(0, source);
  EXPECT_EQ(fetch(got), 0);
  writer_.revoke();
  EXPECT_EQ(fetch(got), ECONNRESET);
}

TEST_F(ShmReferenceTest, MemoryThatIsNotThereIsAnErrorAndItsReleaseRevokes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  writer_.add(0, {static_cast<std::byte*>(memory), 2 * page});
  munmap(static_cast<std::byte*>(memory) + page, page);
  Memory got(2 * page);
  EXPECT_EQ(fetch(got), EFAULT);
  writer_.release();
  EXPECT_EQ(fetch(got), ECONNRESET);
  munmap(memory, page);
}

TEST_F(ShmReferenceTest, AnotherProcessOfTheSameNumberIsNotRead) {
  reader_.set_memory(own_memory(kWord + 1));
  const Memory source = memory_of(10, 1);
  writer_.add(0, source);
  Memory got(10);
  EXPECT_EQ(fetch(got), ESRCH);
  EXPECT_EQ(own_memory().probe(), 0);
  EXPECT_EQ(own_memory(kWord + 1).probe(), ESRCH);
}

TEST_F(ShmReferenceTest, AProcessThatHasEndedIsNotRead) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const PeerMemory memory(child, reinterpret_cast<uintptr_t>(&word_), kWord);
  EXPECT_EQ(memory.probe(), ESRCH);
  EXPECT_EQ(PeerMemory().probe(), EPERM) << "a process without a number here";
}

TEST_F(ShmReferenceTest, AForgedStateIsImpossible) {
  const Memory source = memory_of(10, 1);
  writer_.add(0, source);
  EXPECT_EQ(reader_.next(0).index, ShmIndex::sound);
  EXPECT_EQ(reader_.next(1).index, ShmIndex::impossible) << "it came before bytes that were read";
  state_.slots[0].at.store(kShmRingBytes + 1);
  EXPECT_EQ(reader_.next(0).index, ShmIndex::impossible);
  state_.slots[0].at.store(0);
  state_.slots[0].bytes.store(0);
  EXPECT_EQ(reader_.next(0).index, ShmIndex::impossible);
  state_.slots[0].bytes.store(10);
  ring_.references.store(kShmReferences + 1);
  EXPECT_EQ(reader_.next(0).index, ShmIndex::impossible);
  EXPECT_TRUE(reader_.ready(0)) << "the reader must not wait for ever";
}

// The fetch itself writes the address of the copy into the reference, as a writer could do
// meanwhile.
TEST_F(ShmReferenceTest, AReferenceThatMovesDuringAFetchIsFetchedAgain) {
  std::array<uint64_t, 2> copy{};
  copy = {reinterpret_cast<uintptr_t>(&copy), 2};
  const std::array<uint64_t, 2> source = {reinterpret_cast<uintptr_t>(&copy), 1};
  writer_.add(0, std::as_bytes(std::span(source)));
  uint64_t got = 0;
  const iovec parts[] = {{&state_.slots[0].address, sizeof(uint64_t)}, {&got, sizeof got}};
  EXPECT_EQ(reader_.fetch(parts, sizeof source), 0);
  EXPECT_EQ(got, 2U);
}

TEST_F(ShmReferenceTest, AReferenceThatIsRevokedDuringAFetchIsAnError) {
  const std::array<uint64_t, 2> source = {0, 1};
  writer_.add(0, std::as_bytes(std::span(source)));
  uint64_t got = 0;
  const iovec parts[] = {{&state_.slots[0].address, sizeof(uint64_t)}, {&got, sizeof got}};
  EXPECT_EQ(reader_.fetch(parts, sizeof source), ECONNRESET);
}

}  // namespace
}  // namespace r2ccl
