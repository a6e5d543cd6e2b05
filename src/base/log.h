// NCCL-shaped logging: silent unless R2CCL_DEBUG (or NCCL_DEBUG) asks for more.
// Lines go to stderr or R2CCL_DEBUG_FILE: "host:pid:tid [rank] R2CCL INFO text". Any thread.
#pragma once

#include <string>

namespace r2ccl {

enum class LogLevel { none = 0, version = 1, warn = 2, info = 3, trace = 4 };

// Sets the level and the file ("" is stderr; %h and %p expand to host name and process id).
void log_configure(LogLevel level, const std::string& file);
bool log_enabled(LogLevel level);
[[gnu::format(printf, 2, 3)]] void log_printf(LogLevel level, const char* format, ...);

}  // namespace r2ccl

#define R2CCL_LOG(level, ...)                                     \
  do {                                                            \
    if (::r2ccl::log_enabled(::r2ccl::LogLevel::level)) {         \
      ::r2ccl::log_printf(::r2ccl::LogLevel::level, __VA_ARGS__); \
    }                                                             \
  } while (0)
