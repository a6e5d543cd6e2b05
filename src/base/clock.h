// Time as a value. Only the system clock object reads the machine's clock. All other code is handed
// `now`, so the simulator can run the same code on virtual time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace r2ccl {

// Nanoseconds on a clock that never goes back; also a duration.
using TimeNs = int64_t;

inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr TimeNs kNever = INT64_MAX;

// Returns the milliseconds, clamped to the range of the type.
constexpr uint32_t bounded_ms(TimeNs duration) {
  return static_cast<uint32_t>(std::clamp<TimeNs>(duration / kMillisecond, 0, UINT32_MAX));
}

constexpr double to_ms(TimeNs duration) {
  return static_cast<double>(duration) / 1e6;
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs now() const = 0;
  // Returns the nanoseconds since 1970. For verdicts and logs, and for moments that ranks choose
  // alike: this clock may jump.
  virtual TimeNs wall() const = 0;
};

// Reads the machine's CLOCK_MONOTONIC and CLOCK_REALTIME. Stateless; any thread may use it.
class SystemClock final : public Clock {
 public:
  TimeNs now() const override;
  TimeNs wall() const override;
};

}  // namespace r2ccl
