#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/fork_guard.h"
#include "base/log_writer.h"

namespace r2ccl {
namespace {

// Process-wide, like the stream it writes to. Relaxed: a level change needs no ordering.
std::atomic<int> g_level{static_cast<int>(LogLevel::none)};
std::atomic<bool> g_untold{false};  // some suppressed lines are not reported yet
thread_local int t_rank = -1;       // below 0: none
std::mutex g_mutex;                 // guards limit() and the choice of the file

// Returns an object that is never destroyed, because another thread may still log while the process
// ends.
template <typename Type>
Type& lasting() {
  alignas(Type) static std::array<std::byte, sizeof(Type)> memory;
  static Type* const instance = new (memory.data()) Type;
  return *instance;
}
LogLimit& limit() {
  return lasting<LogLimit>();
}
LogWriter& writer() {
  return lasting<LogWriter>();
}

std::string expand(const std::string& pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    ++i;
    char host[256] = "";
    if (pattern[i] == 'h' && gethostname(host, sizeof host - 1) == 0) out += host;
    if (pattern[i] == 'p') out += std::to_string(getpid());
    if (pattern[i] == '%') out += '%';
  }
  return out;
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::none:
      return "NONE";
    case LogLevel::version:
      return "VERSION";
    case LogLevel::warn:
      return "WARN";
    case LogLevel::info:
      return "INFO";
    case LogLevel::trace:
      return "TRACE";
  }
  return "?";
}

// `before` precedes the text.
void write_line(LogLevel level, const char* before, const char* text) {
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  char rank[16] = "";
  if (t_rank >= 0) std::snprintf(rank, sizeof rank, "[%d] ", t_rank);
  char line[1536];
  const int size = std::snprintf(line, sizeof line, "%s:%d:%ld %sR2CCL %s %s%s\n", host, getpid(),
                                 syscall(SYS_gettid), rank, name_of(level), before, text);
  if (size <= 0) return;
  const size_t length = std::min(static_cast<size_t>(size), sizeof line - 1);
  line[length - 1] = '\n';
  writer().add({line, length});
}

// Requires the lock.
void write_suppressed(TimeNs now) {
  while (const auto suppressed = limit().take_suppressed(now)) {
    char before[64];
    std::snprintf(before, sizeof before, "%llu similar lines suppressed, the last: ",
                  static_cast<unsigned long long>(suppressed->lines));
    write_line(suppressed->level, before, suppressed->last.c_str());
  }
  g_untold.store(!limit().all_told(), std::memory_order_relaxed);
}

// Makes a fork hold the locks. If a thread forks while another one logs, the child would otherwise
// find a lock held for ever, by a thread that it does not have. Also has the end of the process
// wait for the last lines.
void register_log_handlers_once() {
  [[maybe_unused]] static const bool registered = [] {
    at_fork(
        [] {
          g_mutex.lock();
          writer().before_fork();
        },
        [] {
          writer().after_fork_in_parent();
          g_mutex.unlock();
        },
        [] {
          writer().after_fork_in_child();
          g_mutex.unlock();
        });
    return std::atexit(log_flush) == 0;
  }();
}

// A link that another user made could lead a process with more rights to any file.
bool is_trusted(const struct stat& link) {
  return link.st_uid == 0 || link.st_uid == geteuid();
}

// Returns the descriptor, above those of the standard streams; below 0: errno says why. A FIFO
// opens for reading too, so neither this call nor a line waits for its reader, who may come late,
// and go.
int open_log_file(const std::string& name) {
  struct stat file {};
  const bool exists = lstat(name.c_str(), &file) == 0;
  const bool is_link = exists && S_ISLNK(file.st_mode);
  if (is_link && !is_trusted(file)) {
    errno = ELOOP;
    return -1;
  }
  int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  flags |= exists && S_ISFIFO(file.st_mode) ? O_RDWR : O_WRONLY | O_APPEND | O_CREAT;
  if (!is_link) flags |= O_NOFOLLOW;
  const int opened = open(name.c_str(), flags, 0600);
  if (opened < 0) return opened;
  const int above = fcntl(opened, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int why = errno;
  close(opened);
  errno = why;
  return above;
}

std::string why_not(const std::string& name, int error) {
  const std::string what = "the log file " + name + " cannot be written";
  if (error == ELOOP) {
    return what + ": it is a symbolic link that another user made, or a loop of links";
  }
  return system_error(what, error).message();
}

}  // namespace

Status log_configure(LogLevel level, const std::string& file) {
  register_log_handlers_once();
  std::lock_guard lock(g_mutex);
  if (!writer().has_file() && !file.empty() && file != "/dev/stderr") {
    const std::string name = expand(file);
    const int opened = open_log_file(name);
    if (opened < 0) return {Code::invalid_argument, why_not(name, errno)};
    writer().write_to(opened);
  }
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
  return {};
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) <= g_level.load(std::memory_order_relaxed);
}

LogLevel log_level() {
  return static_cast<LogLevel>(g_level.load(std::memory_order_relaxed));
}

LogRank::LogRank(int rank) : before_(std::exchange(t_rank, rank)) {}

LogRank::~LogRank() {
  t_rank = before_;
}

void log_printf(LogSite site, LogLevel level, const char* format, ...) noexcept {
  char text[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const TimeNs now = SystemClock().now();
  std::lock_guard lock(g_mutex);
  write_suppressed(now);
  if (limit().admit(site, level, text, now)) write_line(level, "", text);
  g_untold.store(!limit().all_told(), std::memory_order_relaxed);
}

void log_always(const char* text) noexcept {
  char line[1024];
  const int size = std::snprintf(line, sizeof line, "r2ccl: %s\n", text);
  if (size <= 0) return;
  const size_t length = std::min(static_cast<size_t>(size), sizeof line - 1);
  line[length - 1] = '\n';
  writer().add({line, length});
}

uint64_t log_lines_dropped() noexcept {
  return writer().dropped();
}

void log_flush() noexcept {
  writer().flush(limits::kLogFarewell);
}

void log_suppressed(bool now) noexcept {
  if (!g_untold.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(g_mutex);
  write_suppressed(now ? kNever : SystemClock().now());
}

}  // namespace r2ccl
