#include "runtime/link/user_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>
#include <vector>

namespace r2ccl {
namespace {

class UserMemory : public testing::Test {
 protected:
  static constexpr size_t kPages = 16;

  UserMemory()
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        memory_(static_cast<std::byte*>(mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~UserMemory() override { munmap(memory_, kPages * page_); }

  void protect(size_t page, size_t count, int rights) {
    ASSERT_EQ(mprotect(memory_ + page * page_, count * page_, rights), 0);
  }
  // Returns the offset of the first untouchable byte; -1: none.
  int64_t bad_at(size_t from, size_t bytes, Access access) {
    const auto bad = find_bad_memory({memory_ + from, bytes}, access);
    return bad ? bad->at - memory_ : -1;
  }
  int64_t bytes(size_t pages) const { return static_cast<int64_t>(pages * page_); }

  const size_t page_;
  std::byte* const memory_;
};

TEST_F(UserMemory, IsFoundGoodWhereItIs) {
  for (const Access access : {Access::read, Access::write}) {
    EXPECT_EQ(bad_at(0, kPages * page_, access), -1);
    EXPECT_EQ(bad_at(1, 1, access), -1);
    EXPECT_EQ(bad_at(page_ - 4, 8, access), -1);
    EXPECT_EQ(bad_at(0, 0, access), -1);
  }
  EXPECT_FALSE(find_bad_memory({}, Access::write)) << "no memory needs no place";
}

TEST_F(UserMemory, EndsWhereItsMappingEnds) {
  ASSERT_EQ(munmap(memory_ + 5 * page_, page_), 0);
  for (const Access access : {Access::read, Access::write}) {
    EXPECT_EQ(bad_at(8, 10 * page_, access), bytes(5)) << "a hole in the middle";
    EXPECT_EQ(bad_at(8, 5 * page_, access), bytes(5)) << "one byte too many";
    EXPECT_EQ(bad_at(0, 5 * page_, access), -1);
    EXPECT_EQ(bad_at(5 * page_ + 8, 4, access), bytes(5) + 8) << "wholly outside";
  }
  EXPECT_EQ(bad_at(0, size_t{1} << 45, Access::read), bytes(5)) << "more than there is anywhere";
}

TEST_F(UserMemory, OfACallIsFoundBadInEitherBuffer) {
  const auto range = [this](size_t page) { return std::span(memory_ + page * page_, page_); };
  EXPECT_FALSE(find_bad_memory(range(1), range(3))) << "one mapping holds both";
  EXPECT_FALSE(find_bad_memory(range(1), {}));
  protect(3, 1, PROT_READ);
  EXPECT_FALSE(find_bad_memory(range(1), range(3))) << "another mapping, which can be read";
  const auto not_written = find_bad_memory(range(3), range(1));
  ASSERT_TRUE(not_written);
  EXPECT_EQ(not_written->at, range(3).data());
  EXPECT_EQ(not_written->access, Access::write);
  protect(3, 1, PROT_NONE);
  const auto not_read = find_bad_memory(range(1), range(3));
  ASSERT_TRUE(not_read);
  EXPECT_EQ(not_read->at, range(3).data());
  EXPECT_EQ(not_read->access, Access::read);
}

TEST_F(UserMemory, EndsWhereAccessEnds) {
  protect(10, 6, PROT_NONE);
  EXPECT_EQ(bad_at(0, kPages * page_, Access::read), bytes(10));
  protect(10, 6, PROT_READ);
  EXPECT_EQ(bad_at(0, kPages * page_, Access::read), -1);
  EXPECT_EQ(bad_at(0, kPages * page_, Access::write), bytes(10));
}

TEST_F(UserMemory, IsRefusedAroundAPageInItsMiddle) {
  protect(9, 1, PROT_NONE);
  for (const Access access : {Access::read, Access::write}) {
    EXPECT_EQ(bad_at(8, kPages * page_ - 8, access), bytes(9));
    EXPECT_EQ(bad_at(0, 9 * page_, access), -1);
    EXPECT_EQ(bad_at(10 * page_, page_, access), -1);
  }
}

TEST_F(UserMemory, IsRefusedWhereItsEndWrapsAround) {
  const uintptr_t begin = UINTPTR_MAX - page_ + 1;
  auto* const last_page = reinterpret_cast<std::byte*>(begin);
  for (const Access access : {Access::read, Access::write}) {
    for (const size_t bytes : {page_ / 2, page_, 2 * page_, 1024 * page_}) {
      const auto bad = find_bad_memory({last_page, bytes}, access);
      ASSERT_TRUE(bad.has_value()) << bytes;
      EXPECT_EQ(bad->at, last_page) << bytes;
      EXPECT_EQ(locate_bad_memory({last_page, bytes}, access).at, last_page) << bytes;
    }
  }
}

TEST_F(UserMemory, IsLocatedWhereTheKernelRefusedIt) {
  protect(3, 1, PROT_READ);
  protect(7, 1, PROT_NONE);
  const std::span<const std::byte> all(memory_, kPages * page_);
  EXPECT_EQ(locate_bad_memory(all, Access::write).at, memory_ + 3 * page_);
  EXPECT_EQ(locate_bad_memory(all, Access::read).at, memory_ + 7 * page_);
  EXPECT_EQ(locate_bad_memory(all.first(page_), Access::write).at, memory_) << "no mapping tells";
}

TEST_F(UserMemory, IsCopiedIfItCanBeRead) {
  std::vector<std::byte> copy(kPages * page_);
  memory_[5 * page_] = std::byte{7};
  EXPECT_TRUE(copy_if_readable(copy.data(), {memory_, copy.size()}));
  EXPECT_EQ(copy[5 * page_], std::byte{7});
  protect(9, 1, PROT_NONE);
  EXPECT_FALSE(copy_if_readable(copy.data(), {memory_, copy.size()}));
  EXPECT_TRUE(copy_if_readable(copy.data(), {memory_, 9 * page_}));
}

TEST(OffsetIn, KnowsInsideFromOutside) {
  const std::byte memory[4] = {};
  EXPECT_EQ(offset_in(memory, 4, memory), 0U);
  EXPECT_EQ(offset_in(memory, 4, memory + 3), 3U);
  EXPECT_FALSE(offset_in(memory, 4, memory + 4));
  EXPECT_FALSE(offset_in(memory + 1, 3, memory));
  EXPECT_FALSE(offset_in(nullptr, 4, memory));
}

}  // namespace
}  // namespace r2ccl
