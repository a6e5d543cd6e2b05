// Memory that the library allocates, and memory that is registered with a communicator.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCount = 1 << 20;
constexpr size_t kBytes = kCount * sizeof(int32_t);

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

TEST(Memory, IsZeroAndBeginsAtAPageOfItsSize) {
  for (const size_t bytes :
       {size_t{1}, size_t{4096}, (size_t{2} << 20) - 1, size_t{2} << 20, (size_t{6} << 20) + 1}) {
    void* memory = nullptr;
    ASSERT_EQ(r2cclMemAlloc(&memory, bytes), r2cclSuccess) << r2cclGetLastError(nullptr);
    const size_t alignment = bytes >= (size_t{2} << 20) ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0U) << bytes;
    auto* const first = static_cast<unsigned char*>(memory);
    EXPECT_TRUE(std::all_of(first, first + bytes, [](auto each) { return each == 0; }));
    std::memset(memory, 1, bytes);
    EXPECT_EQ(r2cclMemFree(memory), r2cclSuccess);
    unsigned char resident = 0;
    EXPECT_NE(mincore(memory, 4096, &resident), 0) << "it is still mapped";
    EXPECT_EQ(r2cclMemFree(memory), r2cclInvalidArgument);
  }
}

TEST(Memory, RefusesWrongArguments) {
  auto* memory = reinterpret_cast<void*>(uintptr_t{1});
  int other = 0;
  EXPECT_EQ(r2cclMemAlloc(nullptr, 1), r2cclInvalidArgument);
  EXPECT_EQ(r2cclMemAlloc(&memory, 0), r2cclInvalidArgument);
  EXPECT_EQ(memory, nullptr);
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, size_t{1} << 55}) {
    EXPECT_EQ(r2cclMemAlloc(&memory, bytes), r2cclSystemError);
    EXPECT_TRUE(said("cannot allocate " + std::to_string(bytes))) << r2cclGetLastError(nullptr);
  }
  EXPECT_EQ(r2cclMemFree(&other), r2cclInvalidArgument);
  EXPECT_EQ(r2cclMemFree(nullptr), r2cclSuccess);
}

TEST(Registration, OfABufferServesCallsInsideAndBesideIt) {
  Job job(2);
  job.run({[](Comm& comm) {
    void* memory = nullptr;
    void* registration = nullptr;
    check(r2cclMemAlloc(&memory, 2 * kBytes), "allocate");
    check(r2cclCommRegister(comm.handle(), memory, kBytes, &registration), "register");
    EXPECT_NE(registration, nullptr);
    auto* const data = static_cast<int32_t*>(memory);
    // Inside, across its end, and beyond.
    for (const size_t begin : {size_t{0}, kCount / 2, kCount}) {
      for (size_t i = 0; i < 2 * kCount; ++i) data[i] = comm.rank() + 1;
      check(r2cclAllReduce(data + begin, data + begin, kCount, r2cclInt32, r2cclSum, comm.handle(),
                           nullptr),
            "sum");
      for (size_t i = 0; i < 2 * kCount; ++i) {
        const bool inside = i >= begin && i < begin + kCount;
        if (data[i] != (inside ? 3 : comm.rank() + 1)) throw Broken("a wrong sum");
      }
    }
    check(r2cclCommDeregister(comm.handle(), registration), "deregister");
    EXPECT_EQ(r2cclCommDeregister(comm.handle(), registration), r2cclInvalidArgument);
    check(comm.destroy(), "destroy");
    check(r2cclMemFree(memory), "free");
  }});
}

// A call must not write to memory that was registered when it could be read only.
TEST(Registration, KeepsTheRightsOfTheMemory) {
  Job job(2);
  std::barrier both_returned(2);
  job.run({[&](Comm& comm) {
    void* const memory = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* registration = nullptr;
    check(r2cclCommRegister(comm.handle(), memory, kBytes, &registration), "register");
    std::vector<int32_t> target(kCount, -1);
    check(
        r2cclAllReduce(memory, target.data(), kCount, r2cclInt32, r2cclSum, comm.handle(), nullptr),
        "a call that reads it");
    EXPECT_EQ(target, std::vector<int32_t>(kCount, 0));
    both_returned.arrive_and_wait();  // the next call of either rank ends the communicator
    const r2cclResult_t result =
        r2cclAllReduce(target.data(), memory, kCount, r2cclInt32, r2cclSum, comm.handle(), nullptr);
    EXPECT_TRUE(result == r2cclInvalidArgument || result == r2cclRemoteError) << result;
    EXPECT_TRUE(said("recvbuff cannot be written at offset 0")) << r2cclGetLastError(nullptr);
    check(comm.destroy(), "destroy");
    munmap(memory, kBytes);
  }});
}

TEST(Registration, RefusesWrongArguments) {
  Job job(2);
  job.run({[](Comm& comm) {
    auto* torn = static_cast<char*>(
        mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(torn + 4096, 4096);
    void* registration = nullptr;
    EXPECT_EQ(r2cclCommRegister(comm.handle(), torn, 5000, &registration), r2cclInvalidArgument);
    EXPECT_TRUE(said("buff cannot be read at offset 4096 of 5000")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(registration, nullptr);
    EXPECT_EQ(r2cclCommRegister(comm.handle(), nullptr, 1, &registration), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommRegister(comm.handle(), torn, 0, &registration), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommRegister(comm.handle(), torn, 1, nullptr), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommRegister(comm.handle(), torn, SIZE_MAX, &registration),
              r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommDeregister(comm.handle(), nullptr), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommDeregister(comm.handle(), torn), r2cclInvalidArgument);
    check(comm.destroy(), "destroy");
    munmap(torn, 4096);
  }});
}

}  // namespace
}  // namespace job
