#include "base/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"

namespace r2ccl {
namespace {

constexpr size_t kBits = 64;

struct Table {
  std::mutex mutex;                // guards open_fds; held across fork
  std::vector<uint64_t> open_fds;  // bit fd % 64 of word fd / 64 is set: fd is ours
  // Only the fork handler writes this, when the child has a single thread: relaxed is enough.
  std::atomic<uint32_t> generation{0};
};

// Never destroyed: the exit may still close descriptors with static storage.
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

void before_fork() {
  table().mutex.lock();
}
void after_fork_in_parent() {
  table().mutex.unlock();
}

// Runs in the child, where only async-signal-safe calls are allowed: no allocation, no other lock.
void after_fork_in_child() {
  Table& ours = table();
  for (size_t word = 0; word < ours.open_fds.size(); ++word) {
    uint64_t& bits = ours.open_fds[word];
    for (; bits != 0; bits &= bits - 1) {
      close(static_cast<int>(word * kBits + static_cast<size_t>(std::countr_zero(bits))));
    }
  }
  ours.generation.fetch_add(1, std::memory_order_relaxed);
  ours.mutex.unlock();
}

void register_handlers_once() {
  // Tried again by the next caller if it throws.
  [[maybe_unused]] static const bool registered = [] {
    at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
    return true;
  }();
}

}  // namespace

void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  if (pthread_atfork(before, in_parent, in_child) != 0) throw std::bad_alloc();
}

std::unique_lock<std::mutex> GuardedFd::lock_table() {
  register_handlers_once();
  return std::unique_lock(table().mutex);
}

int GuardedFd::above_standard_streams(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int why = errno;
  close(fd);
  errno = why;
  return above;
}

GuardedFd::GuardedFd(int fd, const std::unique_lock<std::mutex>& held) : fd_(fd) {
  R2CCL_CHECK(held.owns_lock());
  Table& ours = table();
  const size_t index = static_cast<size_t>(fd);
  try {
    if (ours.open_fds.size() <= index / kBits) ours.open_fds.resize(index / kBits + 1);
  } catch (const std::bad_alloc&) {
    close(std::exchange(fd_, -1));
    errno = ENOMEM;
    return;
  }
  ours.open_fds[index / kBits] |= uint64_t{1} << (index % kBits);
  generation_ = ours.generation.load(std::memory_order_relaxed);
}

GuardedFd::GuardedFd(GuardedFd&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}

GuardedFd& GuardedFd::operator=(GuardedFd&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = std::exchange(other.fd_, -1);
  generation_ = other.generation_;
  return *this;
}

int GuardedFd::get() const {
  return generation_ == table().generation.load(std::memory_order_relaxed) ? fd_ : -1;
}

void GuardedFd::reset() {
  const int fd = get();
  fd_ = -1;
  if (fd < 0) return;
  // The bit goes with the descriptor, under one lock. Otherwise another thread could get the same
  // number between the two, and a fork would miss it or close a foreign descriptor.
  std::lock_guard lock(table().mutex);
  const size_t index = static_cast<size_t>(fd);
  table().open_fds[index / kBits] &= ~(uint64_t{1} << (index % kBits));
  close(fd);
}

}  // namespace r2ccl
