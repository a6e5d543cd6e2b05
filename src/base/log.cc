#include "base/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace r2ccl {
namespace {

// Process-wide by nature, like the stream it writes to. Relaxed: a level change needs no ordering.
std::atomic<int> g_level{static_cast<int>(LogLevel::none)};
std::mutex g_mutex;           // guards g_file
std::FILE* g_file = nullptr;  // null: stderr

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

}  // namespace

void log_configure(LogLevel level, const std::string& file) {
  std::lock_guard lock(g_mutex);
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
  if (!file.empty() && g_file == nullptr) g_file = std::fopen(expand(file).c_str(), "ae");
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) <= g_level.load(std::memory_order_relaxed);
}

void log_printf(LogLevel level, const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  std::lock_guard lock(g_mutex);
  std::FILE* out = g_file != nullptr ? g_file : stderr;
  std::fprintf(out, "%s:%d:%ld R2CCL %s %s\n", host, getpid(), syscall(SYS_gettid), name_of(level),
               text);
  std::fflush(out);
}

}  // namespace r2ccl
