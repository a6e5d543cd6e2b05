#include "base/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>

#include "base/fork_guard.h"

namespace r2ccl {
namespace {

// Process-wide, like the stream it writes to. Relaxed: a level change needs no ordering.
std::atomic<int> g_level{static_cast<int>(LogLevel::none)};
std::atomic<bool> g_untold{false};  // some suppressed lines are not reported yet
thread_local int t_rank = -1;       // below 0: none
std::mutex g_mutex;                 // guards the variables below
std::FILE* g_file = nullptr;        // null: stderr

// Returns the process's limit. Never destroyed, because another thread may still write while the
// process ends.
LogLimit& limit() {
  alignas(LogLimit) static std::array<std::byte, sizeof(LogLimit)> memory;
  static LogLimit* const instance = new (memory.data()) LogLimit;
  return *instance;
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

// Requires the lock. `before` precedes the text.
void write_line(LogLevel level, const char* before, const char* text) {
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  char rank[16] = "";
  if (t_rank >= 0) std::snprintf(rank, sizeof rank, "[%d] ", t_rank);
  std::FILE* out = g_file != nullptr ? g_file : stderr;
  std::fprintf(out, "%s:%d:%ld %sR2CCL %s %s%s\n", host, getpid(), syscall(SYS_gettid), rank,
               name_of(level), before, text);
  std::fflush(out);
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

// Makes a fork hold the lock. If a thread forks while another one writes, the child would otherwise
// find the lock held for ever, by a thread that it does not have.
void register_fork_handlers_once() {
  [[maybe_unused]] static const bool registered = [] {
    at_fork([] { g_mutex.lock(); }, [] { g_mutex.unlock(); }, [] { g_mutex.unlock(); });
    return true;
  }();
}

}  // namespace

Status log_configure(LogLevel level, const std::string& file) {
  register_fork_handlers_once();
  std::lock_guard lock(g_mutex);
  if (!file.empty() && g_file == nullptr) {
    const std::string name = expand(file);
    g_file = std::fopen(name.c_str(), "ae");
    if (g_file == nullptr) {
      const Status why = system_error("the log file " + name + " cannot be written", errno);
      return {Code::invalid_argument, why.message()};
    }
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

void log_suppressed(bool now) noexcept {
  if (!g_untold.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(g_mutex);
  write_suppressed(now ? kNever : SystemClock().now());
}

}  // namespace r2ccl
