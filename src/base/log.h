// Logging in NCCL's format: silent unless R2CCL_DEBUG (or NCCL_DEBUG) asks for more. Lines go to
// stderr or R2CCL_DEBUG_FILE as "host:pid:tid [rank] R2CCL INFO text", without [rank] where a
// thread does not work for one rank. Any thread may log. log_limit.h bounds repeated lines.
// Writing needs no memory; without any, repeated lines may be too many. A line never waits for its
// reader (log_writer.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/log_limit.h"
#include "base/status.h"

namespace r2ccl {

// Sets the level and the file. An empty name means stderr; %h and %p expand to host name and
// process id. A new file can be read by its owner alone. A symbolic link counts if it is the
// process's own or root's. The first file that was opened stays. An error says why the file cannot
// be written, and then changes nothing.
Status log_configure(LogLevel level, const std::string& file);
bool log_enabled(LogLevel level);
LogLevel log_level();

// While this object lives, lines of its thread carry the rank.
class LogRank {
 public:
  explicit LogRank(int rank);
  ~LogRank();
  LogRank(const LogRank&) = delete;
  LogRank& operator=(const LogRank&) = delete;

 private:
  const int before_;
};
[[gnu::format(printf, 3, 4)]] void log_printf(LogSite site, LogLevel level, const char* format,
                                              ...) noexcept;
// Writes the text as a line of its own, at every level.
void log_always(const char* text) noexcept;
// Returns the number of lines that were lost because nobody read them or the disk was full.
uint64_t log_lines_dropped() noexcept;
// Waits for lines that are not written yet, but not for a reader that has stalled.
void log_flush() noexcept;
// Reports the number of suppressed lines of each site whose window has ended, or with `now` of
// every site. Cheap when there is nothing to report.
void log_suppressed(bool now = false) noexcept;

}  // namespace r2ccl

#define R2CCL_LOG(level, ...)                                                           \
  do {                                                                                  \
    if (::r2ccl::log_enabled(::r2ccl::LogLevel::level)) {                               \
      ::r2ccl::log_printf({__FILE__, __LINE__}, ::r2ccl::LogLevel::level, __VA_ARGS__); \
    }                                                                                   \
  } while (0)
