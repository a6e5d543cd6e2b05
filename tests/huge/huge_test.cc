// Counts beyond 2^31 elements and messages beyond 4 GiB, between two ranks of this process that
// share memory. Each element is checked; its value differs by rank, and depends on all bits of its
// index, so that a truncated size or displacement shows.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "r2ccl/r2ccl.h"

namespace {

constexpr size_t kGiB = size_t{1} << 30;
constexpr size_t kWord = sizeof(uint64_t);

void check(r2cclResult_t result, const std::string& what) {
  if (result != r2cclSuccess) throw std::runtime_error(what + ": " + r2cclGetLastError(nullptr));
}

// Pages that are untouched cost no memory.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no address space");
    at_ = static_cast<uint8_t*>(at);
  }
  ~Pages() { munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint8_t* data() const { return at_; }
  uint64_t& word(size_t index) const { return reinterpret_cast<uint64_t*>(at_)[index]; }

 private:
  const size_t bytes_;
  uint8_t* at_ = nullptr;
};

// Returns the eight bytes at 8 * index of this rank's input (the finalizer of SplitMix64).
uint64_t value(int rank, uint64_t index) {
  uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(rank);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

// Returns the sums of the bytes of both words, each modulo 256.
uint64_t sum_of_bytes(uint64_t a, uint64_t b) {
  constexpr uint64_t kTop = 0x8080808080808080U;
  return ((a & ~kTop) + (b & ~kTop)) ^ ((a ^ b) & kTop);
}

void fill(const Pages& pages, size_t first, size_t bytes, int rank) {
  for (size_t i = first / kWord; i < (first + bytes) / kWord; ++i) pages.word(i) = value(rank, i);
}

// Checks the bytes from `first` on. `right(i)` is the word at 8 * i.
template <typename Right>
void expect(const Pages& pages, size_t first, size_t bytes, Right right) {
  for (size_t i = first / kWord; i < (first + bytes) / kWord; ++i) {
    if (pages.word(i) == right(i)) continue;
    throw std::runtime_error("wrong bytes at " + std::to_string(kWord * i));
  }
}

// Returns 0 when the kernel does not tell.
size_t bytes_available() {
  std::ifstream in("/proc/meminfo");
  for (std::string name; in >> name;) {
    size_t kilobytes = 0;
    if (name == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

class Huge : public ::testing::Test {
 protected:
  // Skips the test unless the machine has the memory to spare for `touched` bytes.
  static std::string lack(size_t touched) {
    const size_t needed = touched + 2 * kGiB;
    const size_t available = bytes_available();
    if (available >= needed) return "";
    return "needs " + std::to_string(needed / kGiB) + " GiB of memory, and " +
           std::to_string(available / kGiB) + " GiB are available";
  }

  template <typename Body>
  static void run(Body body) {
    setenv("R2CCL_SOCKET_IFNAME", "lo", 1);
    r2cclUniqueId id;
    ASSERT_EQ(r2cclGetUniqueId(&id), r2cclSuccess) << r2cclGetLastError(nullptr);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        r2cclComm_t comm = nullptr;
        try {
          check(r2cclCommInitRank(&comm, 2, id, rank), "init");
          body(comm, rank);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
          if (comm != nullptr) (void)r2cclCommAbort(comm);
        }
        (void)r2cclCommDestroy(comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(Huge, AllReduceOfMoreThan2To31Elements) {
  constexpr size_t kCount = 2 * kGiB + 4096 + kWord;
  if (const std::string lacks = lack(2 * kCount); !lacks.empty()) GTEST_SKIP() << lacks;
  run([](r2cclComm_t comm, int rank) {
    const Pages data(kCount);
    fill(data, 0, kCount, rank);
    check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclUint8, r2cclSum, comm, nullptr),
          "AllReduce");
    expect(data, 0, kCount, [](size_t i) { return sum_of_bytes(value(0, i), value(1, i)); });
  });
}

TEST_F(Huge, SendOfMoreThan4GiB) {
  constexpr size_t kBytes = 4 * kGiB + 4096 + kWord;
  if (const std::string lacks = lack(2 * kBytes); !lacks.empty()) GTEST_SKIP() << lacks;
  run([](r2cclComm_t comm, int rank) {
    const Pages data(kBytes);
    if (rank == 0) {
      fill(data, 0, kBytes, 0);
      return check(r2cclSend(data.data(), kBytes, r2cclUint8, 1, comm, nullptr), "Send");
    }
    check(r2cclRecv(data.data(), kBytes, r2cclUint8, 0, comm, nullptr), "Recv");
    expect(data, 0, kBytes, [](size_t i) { return value(0, i); });
  });
}

// Only the blocks are touched, so that this needs little memory. The block to rank 1 begins beyond
// 2^32 elements, that to rank 0 beyond 2^31, and each comes to lie at another place.
TEST_F(Huge, AllToAllVWithDisplacementsBeyond2To31) {
  constexpr size_t kRoom = 6 * kGiB;
  constexpr std::array<size_t, 2> kCounts{8 * 50'021, 8 * 30'011};  // by target
  constexpr std::array<size_t, 2> kFrom{2 * kGiB + 80, 4 * kGiB + 160};
  constexpr std::array<size_t, 2> kTo{5 * kGiB + 240, 2 * kGiB + 320};  // by source
  if (const std::string lacks = lack(kGiB); !lacks.empty()) GTEST_SKIP() << lacks;
  run([&](r2cclComm_t comm, int rank) {
    const Pages source(kRoom);
    const Pages target(kRoom);
    for (size_t peer = 0; peer < 2; ++peer) fill(source, kFrom[peer], kCounts[peer], rank);
    const size_t mine = kCounts[static_cast<size_t>(rank)];
    const std::array<size_t, 2> counts{mine, mine};
    check(r2cclAllToAllV(source.data(), kCounts.data(), kFrom.data(), target.data(), counts.data(),
                         kTo.data(), r2cclInt8, comm, nullptr),
          "AllToAllV");
    for (int peer = 0; peer < 2; ++peer) {
      const size_t at = kTo[static_cast<size_t>(peer)];
      const size_t from = kFrom[static_cast<size_t>(rank)];
      expect(target, at, mine,
             [=](size_t i) { return value(peer, i - at / kWord + from / kWord); });
      expect(target, at + mine, 4096, [](size_t) { return uint64_t{0}; });
    }
  });
}

}  // namespace
