#include "protocol/path/path_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// A measurement lasts this long, or this many min_rtt if that is longer.
constexpr TimeNs kInterval = 10 * kMillisecond;
constexpr TimeNs kIntervalDelays = 2;
// One-way delays count as follows: the least of this many, against the greatest of twice as many of
// the best path. While they are fewer, a difference below kFewNoise may come from the schedulers.
constexpr uint32_t kLeastOf = 4;
constexpr TimeNs kFewNoise = 5 * kMillisecond;
// The scheduler trusts the delay that an idle path once showed for this long.
constexpr TimeNs kDelayBelieved = 500 * kMillisecond;
// App-limited samples: transmissions that had the path to themselves. When this many in a row come
// later than any of the last ones on the best path, the path is the cause and not the schedulers.
constexpr int kAloneLate = 8;
constexpr TimeNs kProbeInterval = 100 * kMillisecond;
constexpr TimeNs kProbeSpacing = 100;  // multiple of a probe's time: 1 % of a NIC
constexpr TimeNs kProbeExcesses = 3;   // multiple of the excess that a probe may find gone
// A bandwidth probe must exceed the known rate by this factor. The rate then stays on probation for
// this many transmissions.
constexpr double kFaster = 1.5;
constexpr int kTrialLength = 8;
constexpr TimeNs kTrialWaitMax = 30 * kSecond;
constexpr TimeNs kDelayPeriod = 5 * kSecond;
// Queueing delay that a window may add over min_rtt where acknowledgements come late.
constexpr TimeNs kQueuedMax = 30 * kMillisecond;
constexpr TimeNs kDelayMin = 20 * kMicrosecond;
constexpr TimeNs kSlackMin = 5 * kMillisecond;
constexpr TimeNs kSlackUnknown = 150 * kMillisecond;
constexpr TimeNs kSlackMax = 60 * kMillisecond;
constexpr TimeNs kErrorOfBest = 4;  // a path's error counts up to this multiple of the best one's
constexpr double kRateMin = 1e-5;   // 10 kB/s: a path below this counts as silent

}  // namespace

void PathModel::reset() {
  outstanding_.clear();
  bytes_outstanding_ = 0;
  frames_sent_ = 0;
  frames_delivered_ = 0;
  bytes_sent_ = 0;
  last_delivery_at_ = 0;
  told_at_ = 0;
  interval_at_ = 0;
  window_ = std::min<uint64_t>(window_, limits::kWindowBytesInitial);
}

void PathModel::expect(double bytes_per_ns) {
  R2CCL_CHECK(bytes_per_ns >= kRateMin);
  if (!rate_known_) rate_ = bytes_per_ns;
  rate_known_ = true;
  const double full = rate_ * static_cast<double>(window_time());
  window_ = std::clamp(static_cast<uint64_t>(full), window_, limits::kWindowBytesMax);
}

TimeNs PathModel::slack() const {
  // No acknowledgement has come yet, so the path may be long.
  if (base_delay_ == kDelayInitial && !mutated(Mutant::tune_margin_unknown)) return kSlackUnknown;
  // However slow the NICs are, the smallest window of another sender may be ahead of this one.
  const TimeNs least =
      mutated(Mutant::tune_margin_window)
          ? kSlackMin
          : std::min(kSlackMin + wire_time_at_most(limits::kWindowBytesMin), kSlackMax);
  // If only this path's acknowledgements are late, the schedulers are not the cause.
  const TimeNs error =
      mutated(Mutant::tune_margin_cap)
          ? deviation_
          : std::min(deviation_, kErrorOfBest * std::min(best_.deviation, kSecond));
  if (mutated(Mutant::tune_margin_error)) return least;
  return std::clamp(4 * error, least, kSlackMax);
}

TimeNs PathModel::finish_at(uint64_t bytes, TimeNs now) const {
  return now + delay_to_compare(now) + wire_time(bytes_queued(now) + bytes);
}

// Returns the bytes that the path has likely not taken yet: a chunk would wait for them. But if the
// receiver has acknowledged later than the predicted time, and not these transmissions, the path is
// behind with everything.
uint64_t PathModel::bytes_queued(TimeNs now) const {
  if (outstanding_.empty() || outstanding_.front().due_at + noise() <= told_at_)
    return bytes_outstanding_;
  const TimeNs left = std::max<TimeNs>(outstanding_.back().left_at - now, 0);
  return std::min(bytes_outstanding_, static_cast<uint64_t>(static_cast<double>(left) * rate_));
}

// Paths whose delays do not differ share the load by their rates alone. An old excess does not
// count either: the scheduler would never use the path, and so never measure it, again.
TimeNs PathModel::delay_to_compare(TimeNs now) const {
  const bool old = outstanding_.empty() && now - last_delivery_at_ > kDelayBelieved;
  const TimeNs least = std::min(base_delay_, best_.delay);
  return old ? least : least + excess();
}

// Returns by how much schedulers and other senders delay transmissions on a path that is well.
TimeNs PathModel::noise() const {
  return best_.one_way_max == kNever ? kFewNoise : best_.one_way_max - best_.one_way;
}

// Returns by how much the path is longer than the best one. The last few samples must all exceed
// all recent ones of some path (a rank test).
TimeNs PathModel::excess() const {
  if (one_way_samples_ == 0 || best_.one_way == kNever) return 0;
  const TimeNs excess = recent_one_way_ - best_.one_way;
  return excess > (one_way_samples_ < kLeastOf ? kFewNoise : noise()) ? excess : 0;
}

void PathModel::add_one_way(TimeNs one_way, TimeNs now) {
  one_ways_[one_way_samples_++ % one_ways_.size()] = one_way;
  one_way_at_ = now;
  recent_one_way_ = kNever;
  for (uint32_t i = 1; i <= std::min(one_way_samples_, kLeastOf); ++i) {
    const TimeNs each = one_ways_[(one_way_samples_ - i) % one_ways_.size()];
    recent_one_way_ = std::min(recent_one_way_, each);
  }
  if (one_way_samples_ < one_ways_.size()) return;
  greatest_one_way_ = *std::max_element(one_ways_.begin(), one_ways_.end());
}

double PathModel::believed_bytes_per_ns() const {
  if (rate_known_) return rate_;
  return std::max(kRateInitial, recent_rate_);
}

TimeNs PathModel::wire_time(uint64_t bytes) const {
  return static_cast<TimeNs>(static_cast<double>(bytes) / rate_);
}

// Returns an upper bound of the wire time: a rate that only a burst has shown must not shorten a
// loss deadline.
TimeNs PathModel::wire_time_at_most(uint64_t bytes) const {
  const double rate = rate_known_ ? rate_ : std::min(rate_, kRateInitial);
  return static_cast<TimeNs>(static_cast<double>(bytes) / rate);
}

void PathModel::on_sent(Transmission transmission, TimeNs now, TimeNs nic_time) {
  R2CCL_CHECK(nic_time >= 0);
  transmission.number = frames_sent_++;
  transmission.sent_at = now;
  transmission.found_idle = outstanding_.empty();
  const TimeNs free_at = outstanding_.empty() ? now
                                              : std::clamp(outstanding_.back().left_at, now,
                                                           now + wire_time(bytes_outstanding_));
  transmission.begins_train = free_at == now;
  transmission.left_at = free_at + wire_time(transmission.bytes);
  transmission.slack = slack();
  const TimeNs own_time = wire_time_at_most(bytes_outstanding_ + transmission.bytes);
  transmission.due_at = now + base_delay_ + own_time;
  transmission.wire_time = std::max(own_time, nic_time);
  transmission.expected_at = now + base_delay_ + transmission.wire_time + transmission.slack;
  bytes_outstanding_ += transmission.bytes;
  bytes_sent_ += transmission.bytes;
  transmission.ahead = bytes_outstanding_;
  transmission.filled = bytes_outstanding_ >= window_ / 2;
  if (!transmission.probe) chunk_bytes_ = transmission.bytes;
  outstanding_.push_back(transmission);
}

bool PathModel::on_delivered(uint64_t frames, FrameArrival arrival, bool suspected, TimeNs now,
                             std::vector<Transmission>& delivered) {
  if (frames > frames_sent_) return false;
  told_at_ = std::max(told_at_, now - arrival.told_for);
  if (frames <= frames_delivered_) return true;
  uint64_t bytes = 0;
  const size_t batch_at = delivered.size();
  while (frames_delivered_ < frames) {
    bytes += outstanding_.front().bytes;
    delivered.push_back(outstanding_.front());
    outstanding_.pop_front();
    ++frames_delivered_;
  }
  bytes_outstanding_ -= bytes;
  const Transmission last = delivered.back();
  // Treat it as if the receiver had acknowledged it at once, on the quickest way.
  const TimeNs at = std::max({now - arrival.known_for, last.sent_at + 1, last_delivery_at_});
  learn_deviation(last, now);
  learn_delay(last, at);
  add_one_way(arrival.at - last.left_at, at);
  learn_shown(std::span(delivered).subspan(batch_at), at);
  if (last.begins_train && outstanding_.empty()) learn_alone(last, at, arrival.at - last.sent_at);
  if (suspected && now > last.expected_at && !mutated(Mutant::tune_rate_suspect)) {
    learn_lateness(last, now);
  } else {
    measure_rate(last, bytes, at);
  }
  last_delivery_at_ = at;
  resize_window(last, bytes, at);
  return true;
}

void PathModel::learn_deviation(const Transmission& transmission, TimeNs now) {
  // RFC 6298, section 2.2: before there is a prediction, half the first round trip.
  const TimeNs late = deviations_ == 0
                          ? (now - transmission.sent_at) / 2
                          : std::abs(now - (transmission.expected_at - transmission.slack));
  deviation_ = deviations_ == 0 ? late : deviation_ + (late - deviation_) / 8;
  ++deviations_;
}

void PathModel::learn_delay(const Transmission& transmission, TimeNs at) {
  if (!transmission.found_idle) return;
  // The transmission went into an idle path: its delay less its own time on the wire is min_rtt.
  const TimeNs elapsed = at - transmission.sent_at;
  const auto wire = static_cast<TimeNs>(transmission.bytes / rate_);
  const TimeNs delay = std::max(elapsed - wire, kDelayMin);
  if (!rate_known_ && elapsed < guessed_elapsed_) {
    guessed_elapsed_ = elapsed;
    guessed_bytes_ = transmission.bytes;
  }
  if (at - delay_period_at_ > kDelayPeriod) {
    delay_min_before_ = delay_min_now_;
    delay_min_now_ = kNever;
    delay_period_at_ = at;
  }
  delay_min_now_ = std::min(delay_min_now_, delay);
  base_delay_ = std::min(delay_min_now_, delay_min_before_);
}

// Learns a rate that the path has at least. All bytes since its last idle moment passed since then,
// and any last ones of those that came together passed since their sends.
void PathModel::learn_shown(std::span<const Transmission> batch, TimeNs at) {
  const auto passed = [at](uint64_t bytes, TimeNs since) {
    return static_cast<double>(bytes) / static_cast<double>(at - since);
  };
  for (const Transmission& sent : batch) {
    if (sent.begins_train) {
      train_bytes_ = 0;
      train_began_at_ = sent.sent_at;
    }
    train_bytes_ += sent.bytes;
  }
  double rate = passed(train_bytes_, train_began_at_);
  uint64_t bytes = 0;
  for (auto sent = batch.rbegin(); sent != batch.rend(); ++sent) {
    bytes += sent->bytes;
    rate = std::max(rate, passed(bytes, sent->sent_at));
  }
  show(rate);
}

// Adds a sample of the rate. It contains the delay: while the rate is a guess, the delay is one
// too. Only the last few samples count, because a token bucket lets a burst through at once.
void PathModel::show(double bytes_per_ns) {
  recent_rates_[rate_samples_++ % recent_rates_.size()] = bytes_per_ns;
  std::array<double, 8> sorted = recent_rates_;
  std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
  recent_rate_ = mutated(Mutant::tune_believed) ? *std::max_element(sorted.begin(), sorted.end())
                                                : sorted[sorted.size() / 2];
}

// Separates delay and rate. Before the rate was known, a slow path's wire time looked like delay. A
// busy path shows its delay no more, so the window would stay too large. Two transmissions with
// more and with fewer bytes ahead tell both apart: on a long path they take the same time, on a
// slow one they do not.
void PathModel::correct_delay(const Transmission& queued, TimeNs now) {
  if (guessed_elapsed_ == kNever || queued.ahead <= guessed_bytes_ ||
      mutated(Mutant::tune_correct_delay))
    return;
  const TimeNs longer = std::max<TimeNs>(now - queued.sent_at - guessed_elapsed_, 0);
  const double ns_per_byte =
      static_cast<double>(longer) / static_cast<double>(queued.ahead - guessed_bytes_);
  const auto wire = static_cast<TimeNs>(ns_per_byte * static_cast<double>(guessed_bytes_));
  delay_min_now_ = std::max(guessed_elapsed_ - wire, kDelayMin);
  delay_min_before_ = kNever;
  base_delay_ = delay_min_now_;
}

// Learns from a transmission that was alone on the path (app-limited). A path that never has two
// transmissions outstanding shows no rate in measure_rate().
void PathModel::learn_alone(const Transmission& transmission, TimeNs at, TimeNs one_way) {
  if (best_.one_way == kNever) return;
  const TimeNs wire = std::max<TimeNs>(one_way - best_.one_way, 1);
  const double sample = static_cast<double>(transmission.bytes) / static_cast<double>(wire);
  const TimeNs promised = wire_time(transmission.bytes);
  // Other senders may have a smallest window ahead at either NIC.
  const auto ahead = static_cast<TimeNs>(2 * limits::kWindowBytesMin / best_.bytes_per_ns);
  if (one_way - best_.one_way > promised + promised / 4 + std::max(noise(), ahead)) {
    alone_best_ = alone_late_ == 0 ? sample : std::max(alone_best_, sample);
    if (trial_from_ > 0) return end_trial(false, at);
    if (++alone_late_ < kAloneLate) return;
    rate_ = std::max(std::min(rate_, alone_best_), kRateMin);
    rate_known_ = true;
    alone_late_ = 0;
    return;
  }
  alone_late_ = 0;
  if (trial_from_ > 0 && --trial_left_ == 0) end_trial(true, at);
  if (!rate_known_ || sample <= rate_) return;
  if (rate_ >= kSlowShare * best_.bytes_per_ns) {
    rate_ = std::max(rate_, std::min(sample, best_.bytes_per_ns));
  } else if (sample > kFaster * rate_ && at >= next_trial_) {
    if (trial_from_ == 0 && !mutated(Mutant::tune_probation)) trial_from_ = rate_;
    trial_left_ = kTrialLength;
    rate_ = std::min(sample, best_.bytes_per_ns);
  }
}

void PathModel::end_trial(bool passed, TimeNs at) {
  if (!passed) {
    rate_ = trial_from_;
    next_trial_ = at + trial_wait_;
  }
  trial_wait_ = passed ? kTrialWaitMin : std::min(2 * trial_wait_, kTrialWaitMax);
  trial_from_ = 0;
}

void PathModel::measure_rate(const Transmission& last, uint64_t bytes, TimeNs at) {
  if (interval_at_ == 0) {
    // The first delivery of a busy time only starts the measurement: the time before it is delay.
    interval_at_ = at;
    interval_bytes_ = 0;
    interval_filled_ = 0;
  } else {
    interval_bytes_ += bytes;
    // A prior rate sets no deadline for the transmission, but the path must show it.
    const bool hoped = !rate_known_ && nic_paths_ == 1;
    const TimeNs promised =
        hoped ? base_delay_ + wire_time(last.ahead) : last.expected_at - last.slack - last.sent_at;
    const bool slower = at - last.sent_at > promised + promised / 4 + noise();
    if (last.filled || slower) interval_filled_ += bytes;
  }
  const TimeNs length = at - interval_at_;
  if (length >= std::max(kInterval, kIntervalDelays * base_delay_)) {
    const double sample = static_cast<double>(interval_bytes_) / static_cast<double>(length);
    const bool was_full = interval_filled_ > interval_bytes_ / 2;
    if (!rate_known_) {
      rate_ = was_full ? sample : std::max(rate_, sample);
      rate_known_ = was_full;
      if (rate_known_) correct_delay(last, at);
    } else if (was_full || sample > rate_ || mutated(Mutant::tune_rate_any)) {
      rate_ += (sample - rate_) / 2;
    }
    rate_ = std::max(rate_, kRateMin);
    if (trial_from_ > 0 && was_full) end_trial(sample > kFaster * trial_from_, at);
    interval_at_ = at;
    interval_bytes_ = 0;
    interval_filled_ = 0;
  }
  if (outstanding_.empty()) interval_at_ = 0;
}

// Lowers the rate after a late acknowledgement. The bytes outstanding at the send took this long.
// That is the rate now, unless something else was the cause; so one case lowers the rate only so
// far.
void PathModel::learn_lateness(const Transmission& transmission, TimeNs now) {
  const auto time = static_cast<double>(now - transmission.sent_at);
  const double sample = static_cast<double>(transmission.ahead) / time;
  rate_ = std::max({std::min(rate_, sample), rate_ / 4, kRateMin});
  interval_at_ = 0;
  rate_known_ = true;
}

// Returns for how long the bytes in flight may take: a round trip there, one for the
// acknowledgement, and a queue that hides what schedulers delay. Acknowledgements are late when a
// process did not run. They must not leave the path dry. Where several paths share the NIC they
// keep it busy together, and would be late by each other's bytes.
TimeNs PathModel::window_time() const {
  const TimeNs late = std::min(4 * deviation_, kQueuedMax) /
                      (mutated(Mutant::tune_window_shared) ? 1 : static_cast<TimeNs>(nic_paths_));
  return 2 * base_delay_ + (mutated(Mutant::tune_window_late)
                                ? limits::kWindowDuration
                                : std::max(late, limits::kWindowDuration));
}

// A path that is never half full keeps its window. Its app-limited samples tell then how much it
// carries. They may be a burst, so they count for half a window at most.
uint64_t PathModel::bytes_in(TimeNs duration) const {
  const double share = static_cast<double>(duration) / static_cast<double>(window_time());
  const double shown = shown_bytes_per_ns() * static_cast<double>(duration);
  const auto window = static_cast<double>(window_);
  return static_cast<uint64_t>(std::max(window * share, std::min(shown, window / 2)));
}

// Sizes the window by the time that its bytes take. No rate is needed: `ahead` bytes took this
// long, so that many more or fewer take window_time(). Only a path that was at least half full
// shows that a larger window helps.
void PathModel::resize_window(const Transmission& last, uint64_t delivered, TimeNs at) {
  const TimeNs allowed = window_time();
  const TimeNs elapsed = at - last.sent_at;
  const double wanted =
      static_cast<double>(last.ahead) * static_cast<double>(allowed) / static_cast<double>(elapsed);
  const auto target =
      static_cast<uint64_t>(std::clamp(wanted, static_cast<double>(limits::kWindowBytesMin),
                                       static_cast<double>(limits::kWindowBytesMax)));
  if (elapsed > allowed) {
    window_ = std::min(window_, target);
  } else if (last.filled || mutated(Mutant::tune_window_filled)) {
    // Growing by at most the delivered bytes is slow start (RFC 5681, section 3.1).
    window_ = std::max(
        window_,
        (mutated(Mutant::tune_window_slow_start) ? target : std::min(target, window_ + delivered)));
  }
}

void PathModel::compare(const Best& best) {
  R2CCL_CHECK(best.bytes_per_ns > 0);
  best_ = best;
  if (!rate_known_) rate_ = best.bytes_per_ns;
}

bool PathModel::wants_probe(TimeNs now) const {
  if (mutated(Mutant::tune_no_probe) || !outstanding_.empty()) return false;
  if (!is_slow(best_.bytes_per_ns) && !looks_long()) return false;
  return now - last_delivery_at_ >= probe_interval();
}

// A queue that made the path long is gone after about its own length, and until a probe shows it
// the other paths carry this one's load.
TimeNs PathModel::probe_interval() const {
  const auto wire = [this](uint64_t bytes) {
    return static_cast<TimeNs>(static_cast<double>(bytes) / best_.bytes_per_ns);
  };
  const TimeNs rare = std::max(kProbeInterval, kProbeSpacing * wire(limits::kWindowBytesMin));
  if (is_slow(best_.bytes_per_ns)) return rare;
  return std::clamp(kProbeExcesses * excess(), kProbeSpacing * wire(probe_bytes()), rare);
}

// A smaller probe than the last chunk would find less wire time, and might find no excess.
uint64_t PathModel::probe_bytes() const {
  return is_slow(best_.bytes_per_ns) ? kProbeBytes : std::min(kProbeBytes, chunk_bytes_);
}

void PathModel::compensate_pause(TimeNs duration) {
  R2CCL_CHECK(duration >= 0);
  for (Transmission& transmission : outstanding_) {
    transmission.due_at += duration;
    transmission.expected_at += duration;
  }
}

void PathModel::check_invariants() const {
  uint64_t bytes = 0;
  for (const Transmission& transmission : outstanding_) bytes += transmission.bytes;
  R2CCL_CHECK(bytes == bytes_outstanding_);
  R2CCL_CHECK(bytes_outstanding_ <= bytes_sent_);
  R2CCL_CHECK(frames_delivered_ + outstanding_.size() == frames_sent_);
  R2CCL_CHECK(outstanding_.empty() || outstanding_.front().number == frames_delivered_);
  R2CCL_CHECK(interval_filled_ <= interval_bytes_);
  R2CCL_CHECK(rate_ > 0);
  R2CCL_CHECK(trial_from_ == 0 || (trial_from_ > 0 && trial_left_ > 0));
  R2CCL_CHECK(trial_wait_ >= kTrialWaitMin && trial_wait_ <= kTrialWaitMax);
  R2CCL_CHECK(base_delay_ > 0 && deviation_ >= 0);
  R2CCL_CHECK(window_ > 0 && window_ <= limits::kWindowBytesMax);
  R2CCL_CHECK(nic_paths_ >= 1);
}

}  // namespace r2ccl
