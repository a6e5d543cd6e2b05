// Writes the log's lines on a thread of its own, so that a thread that logs never waits for the
// log's reader: a full pipe, a FIFO that nobody reads, a stopped terminal and a slow disk would
// otherwise hold up the job. The library may not change how the descriptor blocks, because its open
// file belongs to other processes too. The kernel sends SIGPIPE to the thread that writes, and this
// one blocks all signals.
//
// Lines that find no room and lines that cannot be written are counted, and the next line that goes
// through says so. The memory is fixed, because a line may say that there is none.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/limits.h"

namespace r2ccl {

// The file that was standard error when the library first looked. Its number may be closed later,
// and a socket of the application may then get it: no line may go there.
class StandardError {
 public:
  static StandardError look();
  // Returns its descriptor; -1: it is closed, or another socket has its place.
  int descriptor() const;

 private:
  bool open_ = false;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

class LogWriter {
 public:
  // The lines go to this descriptor, which the writer owns from then on and never closes. Before,
  // they go to standard error.
  void write_to(int file) noexcept;
  // Returns whether write_to() was called.
  bool has_file() noexcept;

  // Takes a line with its end. Never waits.
  void add(std::string_view line) noexcept;
  uint64_t dropped() noexcept;
  // Returns when all lines are written, at the bound, or at once when the writer is stuck.
  void flush(TimeNs bound) noexcept;

  // Around a fork. The child has no thread of the writer, and the parent writes its own lines.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork_in_parent() noexcept { mutex_.unlock(); }
  void after_fork_in_child() noexcept;

 private:
  bool start() noexcept;
  void run() noexcept;
  // These require the lock.
  int descriptor() const;
  size_t take(char* out) noexcept;
  bool settled() const;
  void count_dropped(uint64_t lines) noexcept;

  std::mutex mutex_;  // guards all below; nobody holds it while he writes
  std::condition_variable added_;
  std::condition_variable settled_;
  bool started_ = false;
  int file_ = -1;  // below 0: standard error
  std::optional<StandardError> standard_error_;
  std::array<char, limits::kLogQueueBytes> lines_;
  size_t used_ = 0;
  TimeNs writes_since_ = kNever;  // kNever: the thread writes nothing
  uint64_t dropped_ = 0;
  uint64_t untold_ = 0;  // of these: no line has said so
};

}  // namespace r2ccl
