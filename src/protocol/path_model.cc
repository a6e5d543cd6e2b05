#include "protocol/path_model.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace r2ccl {
namespace {

// A measurement lasts this long, or this many base delays if that is longer.
constexpr TimeNs kInterval = 10 * kMillisecond;
constexpr TimeNs kIntervalDelays = 2;
// Lateness below this is the scheduler's, not the path's.
constexpr TimeNs kNoise = 500 * kMicrosecond;
// What an idle path once showed is believed for this long; then hope grows.
constexpr TimeNs kRateBelieved = 500 * kMillisecond;
constexpr TimeNs kDelayPeriod = 5 * kSecond;
constexpr TimeNs kDelayMin = 20 * kMicrosecond;
constexpr TimeNs kSlackMin = 5 * kMillisecond;
constexpr TimeNs kSlackUnknown = 150 * kMillisecond;
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
  interval_at_ = 0;
  window_ = std::min<uint64_t>(window_, limits::kWindowBytesInitial);
}

TimeNs PathModel::slack() const {
  // Nothing has come back yet: the path may be long.
  if (base_delay_ == kDelayInitial) return kSlackUnknown;
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
  transmission.slack = slack();
  transmission.expected_at = finish_at(transmission.bytes, now) + transmission.slack;
  bytes_outstanding_ += transmission.bytes;
  bytes_sent_ += transmission.bytes;
  transmission.ahead = bytes_outstanding_;
  transmission.filled = bytes_outstanding_ >= window_ / 2;
  outstanding_.push_back(transmission);
}

bool PathModel::on_delivered(uint64_t frames, bool suspected, TimeNs now,
                             std::vector<Transmission>& delivered) {
  if (frames > frames_sent_) return false;
  if (frames <= frames_delivered_) return true;
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
  } else {
    measure_rate(last, bytes, now);
  }
  last_delivery_at_ = now;
  resize_window(bytes);
  return true;
}

void PathModel::learn_delay(const Transmission& transmission, TimeNs now) {
  const TimeNs late = std::abs(now - (transmission.expected_at - transmission.slack));
  deviation_ += (late - deviation_) / 8;
  if (!transmission.found_idle) return;
  // Sent into an idle path: its delay less its own time on the wire is the base delay.
  const TimeNs elapsed = now - transmission.sent_at;
  const auto wire = static_cast<TimeNs>(transmission.bytes / rate_);
  const TimeNs delay = std::max(elapsed - wire, kDelayMin);
  if (!rate_known_ && elapsed < guessed_elapsed_) {
    guessed_elapsed_ = elapsed;
    guessed_bytes_ = transmission.bytes;
  }
  if (now - delay_period_at_ > kDelayPeriod) {
    delay_min_before_ = delay_min_now_;
    delay_min_now_ = kNever;
    delay_period_at_ = now;
  }
  delay_min_now_ = std::min(delay_min_now_, delay);
  base_delay_ = std::min(delay_min_now_, delay_min_before_);
}

// Before the rate was known a slow path's own time looked like delay; and as a busy path shows its
// delay no more, the window would stay too large. Two transmissions with more and with fewer bytes
// ahead tell both apart: on a long path they take the same time, on a slow one they do not.
void PathModel::correct_delay(const Transmission& queued, TimeNs now) {
  if (guessed_elapsed_ == kNever || queued.ahead <= guessed_bytes_) return;
  const TimeNs longer = std::max<TimeNs>(now - queued.sent_at - guessed_elapsed_, 0);
  const double ns_per_byte =
      static_cast<double>(longer) / static_cast<double>(queued.ahead - guessed_bytes_);
  const auto wire = static_cast<TimeNs>(ns_per_byte * static_cast<double>(guessed_bytes_));
  delay_min_now_ = std::max(guessed_elapsed_ - wire, kDelayMin);
  delay_min_before_ = kNever;
  base_delay_ = delay_min_now_;
}

void PathModel::measure_rate(const Transmission& last, uint64_t bytes, TimeNs now) {
  if (interval_at_ == 0) {
    // The first delivery of a busy time only starts the measurement: what came before it is delay.
    interval_at_ = now;
    interval_bytes_ = 0;
    interval_filled_ = 0;
  } else {
    interval_bytes_ += bytes;
    const TimeNs promised = last.expected_at - last.slack - last.sent_at;
    const bool slower = now - last.sent_at > promised + promised / 4 + kNoise;
    if (last.filled || slower) interval_filled_ += bytes;
  }
  const TimeNs length = now - interval_at_;
  if (length >= std::max(kInterval, kIntervalDelays * base_delay_)) {
    const double sample = static_cast<double>(interval_bytes_) / static_cast<double>(length);
    const bool was_full = interval_filled_ > interval_bytes_ / 2;
    if (!rate_known_) {
      rate_ = was_full ? sample : std::max(rate_, sample);
      rate_known_ = was_full;
      if (rate_known_) correct_delay(last, now);
    } else if (was_full || sample > rate_) {
      rate_ += (sample - rate_) / 2;
    }
    rate_ = std::max(rate_, kRateMin);
    interval_at_ = now;
    interval_bytes_ = 0;
    interval_filled_ = 0;
  }
  if (outstanding_.empty()) interval_at_ = 0;
}

// What was under way when it was sent took this long: that is the rate now, unless something else
// was the cause; so one case lowers it only so far.
void PathModel::learn_lateness(const Transmission& transmission, TimeNs now) {
  const auto time = static_cast<double>(now - transmission.sent_at);
  const double sample = static_cast<double>(transmission.ahead) / time;
  rate_ = std::max({std::min(rate_, sample), rate_ / 4, kRateMin});
  interval_at_ = 0;
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

void PathModel::hope(double bytes_per_ns, TimeNs now) {
  if (!rate_known_) {
    rate_ = bytes_per_ns;
  } else if (rate_ < bytes_per_ns && outstanding_.empty() &&
             now - std::max(last_delivery_at_, hoped_at_) > kRateBelieved) {
    rate_ = std::min(2 * rate_, bytes_per_ns);
    hoped_at_ = now;
  }
}

void PathModel::excuse(TimeNs duration) {
  for (Transmission& transmission : outstanding_) transmission.expected_at += duration;
}

}  // namespace r2ccl
