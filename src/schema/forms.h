// The forms that JSON gives to times and shares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace r2ccl::schema {

constexpr double percent(uint32_t ppm) {
  return static_cast<double>(ppm) / 1e4;
}
// A negative time is not known.
constexpr std::optional<double> known_ms(TimeNs time) {
  return time < 0 ? std::nullopt : std::optional(to_ms(time));
}
constexpr bool is_positive(uint64_t number) {
  return number > 0;
}
constexpr double thousandth(uint32_t number) {
  return static_cast<double>(number) / 1e3;
}
// Returns a time of the wall clock as UTC.
std::string utc_text(TimeNs wall);
// Does so with an empty text for a negative time, which stands for never.
std::string utc_if_ever(TimeNs wall);

}  // namespace r2ccl::schema
