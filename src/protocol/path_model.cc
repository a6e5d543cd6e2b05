#include "protocol/path_model.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace r2ccl {
namespace {

// Busy time that the rate remembers.
constexpr double kRateMemory = 10.0 * static_cast<double>(kMillisecond);
// What a token bucket or a buffer may swallow before a run shows the path's rate.
constexpr uint64_t kRunSkipped = 96 * 1024;
// Below this much busy time a measurement is not believed yet.
constexpr double kRateMinimumTime = 500.0 * static_cast<double>(kMicrosecond);
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
  run_bytes_ = 0;
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
  transmission.found_idle = outstanding_.empty();
  transmission.expected_at = finish_at(transmission.bytes, now) + slack();
  if (outstanding_.empty()) run_bytes_ = 0;
  bytes_outstanding_ += transmission.bytes;
  bytes_sent_ += transmission.bytes;
  transmission.ahead = bytes_outstanding_;
  transmission.filled = bytes_outstanding_ >= window_ / 2;
  outstanding_.push_back(transmission);
}

void PathModel::on_delivered(uint64_t frames, bool suspected, TimeNs now,
                             std::vector<Transmission>& delivered) {
  if (frames <= frames_delivered_ || frames > frames_sent_) return;
  uint64_t bytes = 0;
  Transmission last;
  while (frames_delivered_ < frames) {
    last = outstanding_.front();
    bytes += last.bytes;
    delivered.push_back(last);
    outstanding_.pop_front();
    ++frames_delivered_;
  }
  bytes_outstanding_ -= bytes;
  learn_delay(last, now);
  if (suspected && now > last.expected_at) {
    learn_lateness(last, now);
  } else if (run_bytes_ >= kRunSkipped) {
    learn_rate(bytes, now - last_delivery_at_, last.filled);
  }
  run_bytes_ += bytes;
  last_delivery_at_ = now;
  resize_window(bytes);
}

void PathModel::learn_delay(const Transmission& transmission, TimeNs now) {
  const TimeNs late = std::abs(now - (transmission.expected_at - slack()));
  deviation_ += (late - deviation_) / 8;
  if (!transmission.found_idle) return;
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
}

void PathModel::learn_rate(uint64_t bytes, TimeNs busy, bool may_lower) {
  const double sample_time = static_cast<double>(std::max<TimeNs>(busy, 1));
  const bool lowers = static_cast<double>(bytes) / sample_time < rate_;
  if (rate_known_ && lowers && !may_lower) return;
  rate_bytes_ += static_cast<double>(bytes);
  rate_time_ += sample_time;
  if (rate_time_ > kRateMemory) {
    rate_bytes_ *= kRateMemory / rate_time_;
    rate_time_ = kRateMemory;
  }
  if (rate_time_ < kRateMinimumTime) return;
  rate_ = std::max(rate_bytes_ / rate_time_, kRateMin);
  rate_known_ = true;
}

// What was under way when it was sent took this long: that is the rate now, whatever it was.
void PathModel::learn_lateness(const Transmission& transmission, TimeNs now) {
  const auto time = static_cast<double>(now - transmission.sent_at);
  rate_ = std::max(std::min(rate_, static_cast<double>(transmission.ahead) / time), kRateMin);
  rate_bytes_ = rate_ * kRateMinimumTime;
  rate_time_ = kRateMinimumTime;
  rate_known_ = true;
}

void PathModel::resize_window(uint64_t delivered) {
  if (!rate_known_) return;
  const double wanted = rate_ * static_cast<double>(limits::kWindowDuration + 2 * base_delay_);
  const auto target =
      std::clamp(static_cast<uint64_t>(wanted), limits::kWindowBytesMin, limits::kWindowBytesMax);
  // Growing by no more than what was delivered keeps a misread burst from flooding a queue.
  window_ = std::min(target, window_ + delivered);
}

void PathModel::excuse(TimeNs duration) {
  for (Transmission& transmission : outstanding_) transmission.expected_at += duration;
}

}  // namespace r2ccl
