// A descriptor that does not outlive a fork.
//
// A forked child (a PyTorch DataLoader worker, say) that never calls exec inherits every socket and
// holds it open. When the parent is killed, its peers would then see no close and wait for ever. So
// its owner enters each descriptor in a table, and a pthread_atfork handler closes all of them
// in the child.
//
// The table is process-wide, because fork handlers take no argument and cannot be removed. A thread
// that forks takes the lock before the fork and releases it on both sides, so the child finds a
// consistent table. A thread opens a descriptor under the same lock, so no fork falls between open
// and entry.
#pragma once

#include <cstdint>
#include <mutex>

namespace r2ccl {

// As pthread_atfork(), for this process and its children, for ever. Throws bad_alloc, its only
// error.
void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

// Owns a descriptor. Move-only. In a forked child every GuardedFd made before the fork reads as -1
// and its destruction closes nothing, because the number may by then belong to another file.
class GuardedFd {
 public:
  GuardedFd() = default;
  GuardedFd(GuardedFd&& other) noexcept;
  GuardedFd& operator=(GuardedFd&& other) noexcept;
  ~GuardedFd() { reset(); }

  // Calls open(), which returns a descriptor that a new program does not get, or -1 and leaves
  // errno. It must not block. Where a standard stream is closed, the kernel gives its number, and
  // what the process prints would go into a socket: such a descriptor moves up. Without memory for
  // the table's entry the descriptor is closed again, and errno is ENOMEM.
  template <typename Open>
  static GuardedFd from(Open&& open) {
    std::unique_lock lock = lock_table();
    const int fd = above_standard_streams(open());
    return fd < 0 ? GuardedFd() : GuardedFd(fd, lock);
  }

  bool valid() const { return get() >= 0; }
  int get() const;
  void reset();

 private:
  GuardedFd(int fd, const std::unique_lock<std::mutex>& held);
  static std::unique_lock<std::mutex> lock_table();
  static int above_standard_streams(int fd);

  int fd_ = -1;
  uint32_t generation_ = 0;  // fork generation of the process that opened fd_
};

}  // namespace r2ccl
