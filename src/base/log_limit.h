// Keeps a repeating fault or a flood of unauthenticated connections from filling the log. It admits
// the first few lines of each kind in a second, counts the rest and reports them in one line
// afterwards. A value; the log holds its lock around it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace r2ccl {

enum class LogLevel { none = 0, version = 1, warn = 2, info = 3, trace = 4 };

// The place in the code that writes a line. Lines of one site are of one kind.
struct LogSite {
  const char* file;
  int line;
  friend auto operator<=>(const LogSite&, const LogSite&) = default;
};

class LogLimit {
 public:
  static constexpr int kLinesPerWindow = 20;
  static constexpr TimeNs kWindow = kSecond;

  // Returns whether to write the line; counts it as suppressed if not. Admits it if there is no
  // memory to count it.
  bool admit(const LogSite& site, LogLevel level, std::string_view text, TimeNs now) noexcept;

  struct Suppressed {
    LogLevel level;
    uint64_t lines;
    std::string last;
  };
  // Returns the suppressed lines of one window that is over by `now`, each window once; nothing
  // when all were reported.
  std::optional<Suppressed> take_suppressed(TimeNs now);
  bool all_told() const { return untold_ == 0; }

 private:
  struct Kind {
    TimeNs since = 0;  // begin of its window
    int written = 0;   // in this window
    LogLevel level = LogLevel::none;
    uint64_t suppressed = 0;  // lines that are not reported yet
    std::string last;
  };
  bool count(const LogSite& site, LogLevel level, std::string_view text, TimeNs now);

  std::map<LogSite, Kind> kinds_;  // as many as the code has sites
  uint64_t untold_ = 0;            // lines that are not reported yet
};

}  // namespace r2ccl
