#include "base/log_writer.h"

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

namespace r2ccl {
namespace {

// Lines that go out by one write stay whole when several processes share a pipe.
constexpr size_t kWriteBytesMax = PIPE_BUF;
constexpr size_t kNoteBytesMax = 256;
// Small: the thread has one buffer. The C library adds the room for thread-local variables.
constexpr size_t kStackBytes = 256 * 1024;

uint64_t lines_in(std::string_view text) {
  return static_cast<uint64_t>(std::ranges::count(text, '\n'));
}

// Returns the number of bytes of the note, without its end.
size_t write_note(char* out, uint64_t dropped) {
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  const int size = std::snprintf(
      out, kNoteBytesMax,
      "%s:%d:%ld R2CCL WARN %llu lines of this log were dropped: its reader was slow or gone, or "
      "the disk full\n",
      host, getpid(), syscall(SYS_gettid), static_cast<unsigned long long>(dropped));
  return std::min(static_cast<size_t>(std::max(size, 0)), kNoteBytesMax - 1);
}

// Returns whether all of the text was written. The file may block, or not.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd room{file, POLLOUT, 0};
      (void)poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

StandardError StandardError::look() {
  StandardError found;
  struct stat file {};
  found.open_ = fstat(STDERR_FILENO, &file) == 0;
  found.device_ = file.st_dev;
  found.inode_ = file.st_ino;
  return found;
}

int StandardError::descriptor() const {
  struct stat file {};
  if (!open_ || fstat(STDERR_FILENO, &file) != 0) return -1;
  const bool same = file.st_dev == device_ && file.st_ino == inode_;
  return same || !S_ISSOCK(file.st_mode) ? STDERR_FILENO : -1;
}

void LogWriter::write_to(int file) noexcept {
  std::lock_guard lock(mutex_);
  file_ = file;
}

bool LogWriter::has_file() noexcept {
  std::lock_guard lock(mutex_);
  if (!standard_error_) standard_error_ = StandardError::look();
  return file_ >= 0;
}

int LogWriter::descriptor() const {
  if (file_ >= 0) return file_;
  return standard_error_ ? standard_error_->descriptor() : STDERR_FILENO;
}

void LogWriter::count_dropped(uint64_t lines) noexcept {
  dropped_ += lines;
  untold_ += lines;
}

void LogWriter::add(std::string_view line) noexcept {
  std::lock_guard lock(mutex_);
  if (line.size() > lines_.size() - used_ || (!started_ && !start())) {
    return count_dropped(lines_in(line));
  }
  std::memcpy(lines_.data() + used_, line.data(), line.size());
  used_ += line.size();
  added_.notify_one();
}

uint64_t LogWriter::dropped() noexcept {
  std::lock_guard lock(mutex_);
  return dropped_;
}

bool LogWriter::settled() const {
  if (writes_since_ == kNever) return used_ == 0;
  return SystemClock().now() - writes_since_ > limits::kLogStuckTime;
}

void LogWriter::flush(TimeNs bound) noexcept {
  std::unique_lock lock(mutex_);
  settled_.wait_for(lock, std::chrono::nanoseconds(bound), [this] { return settled(); });
}

void LogWriter::after_fork_in_child() noexcept {
  started_ = false;
  used_ = 0;
  writes_since_ = kNever;
  dropped_ = untold_ = 0;
  // Threads that the child does not have may wait in them, so their old state counts for nothing.
  new (&added_) std::condition_variable;
  new (&settled_) std::condition_variable;
  mutex_.unlock();
}

// The thread inherits the mask, so it never gets a signal of the application, nor SIGPIPE.
bool LogWriter::start() noexcept {
  pthread_attr_t small;
  if (pthread_attr_init(&small) != 0) return false;
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&small, kStackBytes);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const auto body = [](void* writer) -> void* {
    static_cast<LogWriter*>(writer)->run();
    return nullptr;
  };
  started_ = pthread_create(&thread, &small, body, this) == 0;
  if (started_) pthread_setname_np(thread, "r2ccl-log");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&small);
  return started_;
}

// Takes as many whole lines as fit into one write, at least one.
size_t LogWriter::take(char* out) noexcept {
  size_t size = std::min(used_, kWriteBytesMax - kNoteBytesMax);
  size = std::string_view(lines_.data(), size).rfind('\n') + 1;
  std::memcpy(out, lines_.data(), size);
  used_ -= size;
  std::memmove(lines_.data(), lines_.data() + size, used_);
  return size;
}

void LogWriter::run() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [this] { return used_ > 0; });
    char text[kWriteBytesMax];
    const uint64_t told = untold_;
    const size_t note = told == 0 ? 0 : write_note(text, told);
    const std::string_view whole(text, note + take(text + note));
    const int file = descriptor();
    writes_since_ = SystemClock().now();
    lock.unlock();
    const bool written = file >= 0 && write_all(file, whole);
    lock.lock();
    writes_since_ = kNever;
    if (written) {
      untold_ -= told;
    } else {
      count_dropped(lines_in(whole.substr(note)));
    }
    settled_.notify_all();
  }
}

}  // namespace r2ccl
