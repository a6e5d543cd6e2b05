// Keeps a fault that repeats, or a flood of strangers, from filling the log: of each kind of line
// the first few of a second are written, the rest is counted and told in one line afterwards.
// A value; the log holds its lock around it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"

namespace r2ccl {

enum class LogLevel { none = 0, version = 1, warn = 2, info = 3, trace = 4 };

// Where in the code a line comes from: lines of one site are of one kind.
struct LogSite {
  const char* file;
  int line;
  friend auto operator<=>(const LogSite&, const LogSite&) = default;
};

class LogLimit {
 public:
  static constexpr int kLinesPerWindow = 20;
  static constexpr TimeNs kWindow = kSecond;

  // False when the line must be suppressed: it is counted then.
  bool admit(const LogSite& site, LogLevel level, const std::string& text, TimeNs now);

  struct Suppressed {
    LogLevel level;
    uint64_t lines;
    std::string last;
  };
  // What was suppressed in a window that is over by `now`, once; nothing when all is told.
  std::optional<Suppressed> take_suppressed(TimeNs now);
  bool all_told() const { return untold_ == 0; }

 private:
  struct Kind {
    TimeNs since = 0;  // when its window began
    int written = 0;   // in this window
    LogLevel level = LogLevel::none;
    uint64_t suppressed = 0;  // and not told yet
    std::string last;
  };
  std::map<LogSite, Kind> kinds_;  // as many as the code has sites
  uint64_t untold_ = 0;            // lines
};

}  // namespace r2ccl
