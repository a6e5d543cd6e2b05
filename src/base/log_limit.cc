#include "base/log_limit.h"

#include <new>

namespace r2ccl {

bool LogLimit::admit(const LogSite& site, LogLevel level, std::string_view text,
                     TimeNs now) noexcept {
  try {
    return count(site, level, text, now);
  } catch (const std::bad_alloc&) {
    return true;
  }
}

bool LogLimit::count(const LogSite& site, LogLevel level, std::string_view text, TimeNs now) {
  const auto [found, is_new] = kinds_.try_emplace(site);
  Kind& kind = found->second;
  if (is_new || now - kind.since >= kWindow) {
    kind.since = now;
    kind.written = 0;
  }
  if (kind.written < kLinesPerWindow) {
    ++kind.written;
    return true;
  }
  kind.last = text;
  kind.level = level;
  ++kind.suppressed;
  ++untold_;
  return false;
}

std::optional<LogLimit::Suppressed> LogLimit::take_suppressed(TimeNs now) {
  if (untold_ == 0) return std::nullopt;
  for (auto& [site, kind] : kinds_) {
    if (kind.suppressed == 0 || now - kind.since < kWindow) continue;
    untold_ -= kind.suppressed;
    return Suppressed{kind.level, std::exchange(kind.suppressed, 0), std::move(kind.last)};
  }
  return std::nullopt;
}

}  // namespace r2ccl
