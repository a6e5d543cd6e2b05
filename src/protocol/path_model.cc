#include "protocol/path_model.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace r2ccl {
namespace {

// Busy time that the rate remembers.
constexpr double kRateMemory = 10.0 * static_cast<double>(kMillisecond);
// Below this much busy time the first measurement is not believed yet.
constexpr double kRateMinimumTime = 200.0 * static_cast<double>(kMicrosecond);
constexpr TimeNs kDelayPeriod = 5 * kSecond;
constexpr TimeNs kSlackMin = 3 * kMillisecond;
constexpr TimeNs kSlackMax = 60 * kMillisecond;
constexpr double kRateMin = 1e-5;  // 10 kB/s: below this a path is as good as silent

}  // namespace

void PathModel::reset() {
  outstanding_.clear();
  bytes_outstanding_ = 0;
  frames_sent_ = 0;
  frames_delivered_ = 0;
  bytes_sent_ = 0;
  last_delivery_at_ = 0;
  window_ = std::min<uint64_t>(window_, limits::kWindowBytesInitial);
}

TimeNs PathModel::slack() const {
  return std::clamp(4 * deviation_, kSlackMin, kSlackMax);
}

TimeNs PathModel::finish_at(uint64_t bytes, TimeNs now) const {
  const double drain = static_cast<double>(bytes_outstanding_ + bytes) / rate_;
  return now + base_delay_ + static_cast<TimeNs>(drain);
}

void PathModel::on_sent(Transmission transmission, TimeNs now) {
  transmission.number = frames_sent_++;
  transmission.sent_at = now;
  transmission.found_idle_at = outstanding_.empty() ? now : 0;
  transmission.expected_at = finish_at(transmission.bytes, now) + slack();
  bytes_outstanding_ += transmission.bytes;
  bytes_sent_ += transmission.bytes;
  outstanding_.push_back(transmission);
}

void PathModel::on_delivered(uint64_t frames, TimeNs now, std::vector<Transmission>& delivered) {
  if (frames <= frames_delivered_ || frames > frames_sent_) return;
  const TimeNs busy_since = std::max(last_delivery_at_, outstanding_.front().sent_at);
  uint64_t bytes = 0;
  while (frames_delivered_ < frames) {
    const Transmission& front = outstanding_.front();
    bytes += front.bytes;
    if (frames_delivered_ + 1 == frames) learn_delay(front, now);
    delivered.push_back(front);
    outstanding_.pop_front();
    ++frames_delivered_;
  }
  bytes_outstanding_ -= bytes;
  learn_rate(bytes, busy_since, now);
  last_delivery_at_ = now;
}

void PathModel::learn_delay(const Transmission& transmission, TimeNs now) {
  const TimeNs late = std::abs(now - (transmission.expected_at - slack()));
  deviation_ += (late - deviation_) / 8;
  if (transmission.found_idle_at == 0) return;
  // Sent into an idle path: its delay less its own time on the wire is the base delay.
  const auto wire = static_cast<TimeNs>(transmission.bytes / rate_);
  const TimeNs delay = std::max<TimeNs>(now - transmission.sent_at - wire, 20 * kMicrosecond);
  if (now - delay_period_at_ > kDelayPeriod) {
    delay_min_before_ = delay_min_now_;
    delay_min_now_ = kNever;
    delay_period_at_ = now;
  }
  delay_min_now_ = std::min(delay_min_now_, delay);
  base_delay_ = std::min(delay_min_now_, delay_min_before_);
  delay_known_ = true;
}

void PathModel::learn_rate(uint64_t bytes, TimeNs busy_since, TimeNs now) {
  auto busy = static_cast<double>(now - busy_since);
  // A path that was idle first spent its base delay carrying nothing.
  if (busy_since > last_delivery_at_) busy -= static_cast<double>(base_delay_);
  rate_bytes_ += static_cast<double>(bytes);
  rate_time_ += std::max(busy, 0.0);
  if (rate_time_ > kRateMemory) {
    rate_bytes_ *= kRateMemory / rate_time_;
    rate_time_ = kRateMemory;
  }
  if (rate_time_ >= kRateMinimumTime) {
    rate_ = std::max(rate_bytes_ / rate_time_, kRateMin);
    rate_known_ = true;
  }
  const double wanted = rate_ * static_cast<double>(limits::kWindowDuration + 2 * base_delay_);
  const auto target =
      std::clamp(static_cast<uint64_t>(wanted), limits::kWindowBytesMin, limits::kWindowBytesMax);
  // Growing by no more than what was delivered keeps a misread burst from flooding a queue.
  window_ = std::min(target, window_ + bytes);
}

void PathModel::excuse(TimeNs duration) {
  for (Transmission& transmission : outstanding_) transmission.expected_at += duration;
}

}  // namespace r2ccl
