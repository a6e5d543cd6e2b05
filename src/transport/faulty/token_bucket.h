// A rate limit: tokens (bytes) flow in with time, and transfers spend them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace r2ccl {

class TokenBucket {
 public:
  TokenBucket() = default;
  explicit TokenBucket(uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  size_t available(TimeNs now) {
    if (bytes_per_s_ == 0) return SIZE_MAX;
    if (!started_) filled_at_ = now, started_ = true;
    const TimeNs elapsed_ns = std::clamp<TimeNs>(now - filled_at_, 0, kSecond);
    tokens_ = std::min(
        tokens_ + static_cast<double>(bytes_per_s_) * (static_cast<double>(elapsed_ns) / kSecond),
        burst());
    filled_at_ = std::max(filled_at_, now);
    return static_cast<size_t>(tokens_);
  }
  void spend(size_t bytes) { tokens_ -= bytes_per_s_ == 0 ? 0.0 : static_cast<double>(bytes); }

 private:
  // Bytes that may pass at once after idling: 10 ms worth, and one packet at least, or a slow NIC
  // could never send.
  static constexpr TimeNs kBurstNs = 10 * kMillisecond;
  double burst() const {
    return std::max(1500.0, static_cast<double>(bytes_per_s_) * kBurstNs / kSecond);
  }

  uint64_t bytes_per_s_ = 0;  // 0: no limit
  double tokens_ = 0;
  TimeNs filled_at_ = 0;
  bool started_ = false;
};

}  // namespace r2ccl
