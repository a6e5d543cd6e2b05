// Prints how many GB/s a receiver gets from a process on another core of its host: by one copy, for
// which the kernel reads the sender's memory (process_vm_readv), and by two copies through a ring
// in shared memory, as the transport's. The ring keeps both cores busy, one copy only one, so the
// last column is the ratio of their processor times: above 1, one copy is cheaper where ranks share
// cores. The least time of 5 rounds; the ways take turns in each. Needs two cores.
//   cmake --build --preset release --target copy_bench && build/copy_bench
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>

#include "base/clock.h"

namespace r2ccl {
namespace {

constexpr size_t kBuffer = size_t{16} << 20;
constexpr size_t kRing = size_t{512} << 10;
constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kBytesPerRound = size_t{512} << 20;
constexpr int kRounds = 5;

// The memory of both processes. Each count of bytes has a cache line of its own.
struct Shared {
  alignas(128) std::atomic<size_t> wanted = 0;   // the sender copies up to here
  alignas(128) std::atomic<size_t> written = 0;  // <= wanted
  alignas(128) std::atomic<size_t> read = 0;     // <= written <= read + kRing
  alignas(128) std::byte ring[kRing] = {};
};

// Memory at the same address in both processes; nullptr when there is none.
std::byte* map(size_t bytes, int sharing) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  std::memset(at, 1, bytes);
  return static_cast<std::byte*>(at);
}

bool run_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

[[noreturn]] void send(Shared& shared, std::byte* source) {
  std::memset(source, 2, kBuffer);  // its own pages from now on
  for (size_t done = 0;;) {
    if (done == shared.wanted.load(std::memory_order_acquire)) continue;
    if (done + kPiece > shared.read.load(std::memory_order_acquire) + kRing) continue;
    std::memcpy(shared.ring + done % kRing, source + done % kBuffer, kPiece);
    shared.written.store(done += kPiece, std::memory_order_release);
  }
}

void read_ring(Shared& shared, std::byte* target) {
  size_t done = shared.read.load(std::memory_order_relaxed);
  const size_t end = done + kBytesPerRound;
  shared.wanted.store(end, std::memory_order_release);
  while (done < end) {
    if (done == shared.written.load(std::memory_order_acquire)) continue;
    std::memcpy(target + done % kBuffer, shared.ring + done % kRing, kPiece);
    shared.read.store(done += kPiece, std::memory_order_release);
  }
}

bool read_memory(size_t message, pid_t sender, std::byte* source, std::byte* target) {
  for (size_t done = 0; done < kBytesPerRound; done += message) {
    const iovec to = {target + done % kBuffer, message};
    const iovec from = {source + done % kBuffer, message};
    if (process_vm_readv(sender, &to, 1, &from, 1, 0) != static_cast<ssize_t>(message))
      return false;
  }
  return true;
}

// Returns false where the kernel forbids the one copy.
bool compare(size_t message, pid_t sender, Shared& shared, std::byte* source, std::byte* target) {
  SystemClock clock;
  TimeNs once = std::numeric_limits<TimeNs>::max();
  TimeNs twice = once;
  for (int round = 0; round < kRounds; ++round) {
    const TimeNs began = clock.now();
    if (!read_memory(message, sender, source, target)) return false;
    const TimeNs between = clock.now();
    read_ring(shared, target);
    once = std::min(once, between - began);
    twice = std::min(twice, clock.now() - between);
  }
  const auto rate = [](TimeNs ns) {
    return static_cast<double>(kBytesPerRound) / static_cast<double>(ns);
  };
  std::printf("%10zu %10.2f %10.2f %10.2f\n", message, rate(once), rate(twice),
              2 * rate(once) / rate(twice));
  return true;
}

int run() {
  std::byte* source = map(kBuffer, MAP_PRIVATE);
  std::byte* target = map(kBuffer, MAP_PRIVATE);
  std::byte* memory = map(sizeof(Shared), MAP_SHARED);
  if (source == nullptr || target == nullptr || memory == nullptr) return 1;
  Shared& shared = *new (memory) Shared;
  const pid_t sender = fork();
  if (sender < 0) return 1;
  if (sender == 0) {
    if (!run_on(1)) _exit(1);
    send(shared, source);
  }
  bool allowed = run_on(0);
  std::printf("%10s %10s %10s %10s\n", "message", "one copy", "ring", "processor");
  for (const size_t message :
       {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
    allowed = allowed && compare(message, sender, shared, source, target);
  }
  if (!allowed) std::fprintf(stderr, "no second core, or process_vm_readv is forbidden\n");
  kill(sender, SIGKILL);
  waitpid(sender, nullptr, 0);
  return allowed ? 0 : 1;
}

}  // namespace
}  // namespace r2ccl

int main() {
  return r2ccl::run();
}
