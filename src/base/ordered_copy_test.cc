#include "base/ordered_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

namespace r2ccl {
namespace {

constexpr size_t kWord = 8;

// Copies pieces in a child, whose memory this process can see, and stops it after each instruction.
class Stepped {
 public:
  explicit Stepped(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    target_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  }
  ~Stepped() { munmap(target_, bytes_); }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  const std::byte* target() const { return target_; }

  // Returns whether the child has ended well. Looks after each of its instructions.
  template <typename Look>
  bool copy(std::span<const std::byte> source, size_t piece, Look look) {
    const pid_t child = fork();
    if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      for (size_t at = 0; at < bytes_; at += piece) {
        const size_t count = std::min(piece, bytes_ - at);
        copy_in_order(target_ + at, source.subspan(at, count));
      }
      _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
      look();
      if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return false;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  const size_t bytes_;
  std::byte* target_ = nullptr;
};

// Returns whether a byte has arrived before an earlier one. Runs after each instruction, so it
// calls functions that are fast in every build.
bool out_of_order(std::span<const std::byte> bytes) {
  static const std::vector<std::byte> zeros(4096);
  const void* const missing = std::memchr(bytes.data(), 0, bytes.size());
  if (missing == nullptr) return false;
  const auto arrived = static_cast<size_t>(static_cast<const std::byte*>(missing) - bytes.data());
  const auto rest = bytes.subspan(arrived);
  return std::memcmp(rest.data(), zeros.data(), rest.size()) != 0;
}

TEST(OrderedCopy, NoByteArrivesBeforeAnEarlierOne) {
  for (const size_t piece : {7U, 67U, 213U}) {
    constexpr size_t kBytes = 600;
    const std::vector<std::byte> source(kBytes, std::byte{0x5a});
    Stepped stepped(kBytes);
    ASSERT_NE(stepped.target(), nullptr);
    size_t wrong = 0;
    const bool ended = stepped.copy(source, piece, [&] {
      wrong += out_of_order({stepped.target(), kBytes});
    });
    EXPECT_TRUE(ended) << "the child was not traced to its end";
    EXPECT_EQ(wrong, 0U) << "in pieces of " << piece << " bytes";
    EXPECT_TRUE(std::equal(source.begin(), source.end(), stepped.target()));
  }
}

// More bytes than memcpy() copies by its vector code alone, from 2 bytes before the target's place
// in a page.
TEST(OrderedCopy, NoByteOfALongCopyArrivesBeforeAnEarlierOne) {
  constexpr size_t kBytes = 2200, kPage = 4096;
  std::vector<std::byte> memory(3 * kPage, std::byte{0x5a});
  Stepped stepped(kBytes);  // begins with a page
  ASSERT_NE(stepped.target(), nullptr);
  const size_t to_page = -reinterpret_cast<uintptr_t>(memory.data()) % kPage;
  const auto source = std::span<const std::byte>(memory).subspan(to_page + kPage - 2, kBytes);
  size_t wrong = 0;
  EXPECT_TRUE(stepped.copy(source, kBytes, [&] {
    wrong += out_of_order({stepped.target(), kBytes});
  }));
  EXPECT_EQ(wrong, 0U);
}

TEST(OrderedCopy, CopiesEachByteAndNoOther) {
  constexpr size_t kBytes = 64;
  std::array<std::byte, kBytes> source;
  for (size_t i = 0; i < kBytes; ++i) source[i] = static_cast<std::byte>(i + 1);
  for (size_t begin = 0; begin < 2 * kWord; ++begin) {
    for (size_t end = begin; end < kBytes; ++end) {
      alignas(kWord) std::array<std::byte, kBytes> target{};
      copy_in_order(target.data() + begin, std::span(source).subspan(begin, end - begin));
      for (size_t i = 0; i < kBytes; ++i) {
        const bool is_copied = i >= begin && i < end;
        ASSERT_EQ(target[i], is_copied ? source[i] : std::byte{0}) << begin << ' ' << end;
      }
    }
  }
}

}  // namespace
}  // namespace r2ccl
