// Prints how many GB/s a receiver gets from another process of its host: by one copy, for which the
// kernel reads the sender's memory (process_vm_readv), and by two copies through a ring in shared
// memory that fits a core's cache. One thread makes both copies of the ring, so both columns are
// processor time. The least of 5 rounds; the ways take turns in each.
//   cmake --build --preset release --target copy_bench && build/copy_bench
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/clock.h"

namespace r2ccl {
namespace {

constexpr size_t kBuffer = size_t{16} << 20;
constexpr size_t kRing = size_t{256} << 10;   // as the transport's
constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kBytesPerRound = size_t{512} << 20;
constexpr int kRounds = 5;

// The same memory, at the same addresses, in both processes.
std::span<std::byte> map(size_t bytes, int sharing) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return {};
  std::memset(at, 1, bytes);
  return {static_cast<std::byte*>(at), bytes};
}

// Returns the time in ns of a round of `copy`, which takes an offset and copies one message there;
// infinity when it fails, as where the kernel forbids it.
template <typename Copy>
double round_time(size_t message, const Copy& copy) {
  SystemClock clock;
  const int64_t start = clock.now();
  for (size_t done = 0; done < kBytesPerRound; done += message) {
    if (!copy(done % kBuffer)) return std::numeric_limits<double>::infinity();
  }
  return static_cast<double>(clock.now() - start);
}

void compare(size_t message, pid_t sender, std::span<std::byte> source, std::span<std::byte> target,
             std::span<std::byte> ring) {
  const auto one_copy = [&](size_t at) {
    const iovec to = {target.data() + at, message};
    const iovec from = {source.data() + at, message};
    return process_vm_readv(sender, &to, 1, &from, 1, 0) == static_cast<ssize_t>(message);
  };
  const auto two_copies = [&](size_t at) {
    for (size_t done = 0; done < message; done += kPiece) {
      const size_t bytes = std::min(message - done, kPiece);
      std::byte* piece = ring.data() + (at + done) % kRing;
      std::memcpy(piece, source.data() + at + done, bytes);
      std::memcpy(target.data() + at + done, piece, bytes);
    }
    return true;
  };
  double once = std::numeric_limits<double>::infinity();
  double twice = once;
  for (int round = 0; round < kRounds; ++round) {
    once = std::min(once, round_time(message, one_copy));
    twice = std::min(twice, round_time(message, two_copies));
  }
  constexpr auto kBytes = static_cast<double>(kBytesPerRound);
  std::printf("%10zu %10.2f %12.2f\n", message, kBytes / once, kBytes / twice);
}

int run() {
  const std::span<std::byte> source = map(kBuffer, MAP_PRIVATE);
  const std::span<std::byte> target = map(kBuffer, MAP_PRIVATE);
  const std::span<std::byte> ring = map(kRing, MAP_SHARED);
  if (source.empty() || target.empty() || ring.empty()) return 1;
  const pid_t sender = fork();
  if (sender < 0) return 1;
  if (sender == 0) {
    std::memset(source.data(), 2, source.size());  // its own pages from now on
    for (;;) pause();
  }
  std::printf("%10s %10s %12s\n", "message", "one copy", "two copies");
  for (const size_t message : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10,
                               size_t{256} << 10, size_t{1} << 20, size_t{16} << 20}) {
    compare(message, sender, source, target, ring);
  }
  kill(sender, SIGKILL);
  waitpid(sender, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace r2ccl

int main() {
  return r2ccl::run();
}
