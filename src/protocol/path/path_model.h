// What one end believes about one path's forward direction: what is under way, how fast it drains,
// and when each transmission should have been acknowledged. Pure.
//
// The rate is what was delivered in an interval in which the path was never idle, long enough that
// the burst which a token bucket or a switch's memory lets through does not matter. Traffic that
// did not fill the path can only raise it; a transmission that came late while the path was
// suspected lowers it at once, and so do three in a row that were alone on the path. Until a path
// has shown a rate it is taken for as good as the best. One that is slower than the best gets
// probes while it is idle; when one of those is fast the path is trusted with chunks again, on
// trial: a token bucket lets a probe through quickly that says nothing about its rate.
// What an acknowledgement waited for company at the receiver counts for neither delay nor rate.
// The window is what the rate, the base delay and the usual lateness need and no more: what does
// not fit waits in user space, where a better path can still take it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/delivery/send_ledger.h"

namespace r2ccl {

// One data frame on its way.
struct Transmission {
  uint64_t number = 0;
  uint32_t bytes = 0;  // header and payload
  bool probe = false;  // carries no chunk
  ChannelId channel;
  ChunkRef chunk;
  TimeNs sent_at = 0;
  TimeNs due_at = 0;        // when it will be acknowledged if the path keeps its rate
  TimeNs expected_at = 0;   // when it must be, with slack for the rate and for other links' bytes
  uint64_t ahead = 0;       // bytes under way when it was sent, itself included
  TimeNs slack = 0;         // of expected_at, beyond the estimate
  TimeNs wire_time = 0;     // of what was under way on its path or its NIC, whichever is longer
  bool found_idle = false;  // nothing else was under way when it was sent
  bool filled = false;      // the path was at least half full then
};

class PathModel {
 public:
  static constexpr double kRateInitial = 0.03;  // 30 MB/s, until some path has shown a rate

  // A fresh connection: nothing under way; keeps what earlier connections taught about the rate.
  void reset();

  // `nic_time`: all that is under way through the NIC takes so long, this transmission included.
  // Requires bytes > 0.
  void on_sent(Transmission transmission, TimeNs now, TimeNs nic_time = 0);
  // The receiver has wholly received `frames` data frames of this connection, the last of them
  // `held` before it said so. Appends those that are newly received, oldest first.
  // False when so many were never sent.
  // `suspected`: lateness counts as the path's own.
  [[nodiscard]] bool on_delivered(uint64_t frames, TimeNs held, bool suspected, TimeNs now,
                                  std::vector<Transmission>& delivered);

  // Everything still under way, oldest first.
  const std::deque<Transmission>& outstanding() const { return outstanding_; }
  uint64_t bytes_outstanding() const { return bytes_outstanding_; }
  // Of these, what is likely still on its way: not what is merely not yet acknowledged.
  uint64_t bytes_under_way(TimeNs now) const;
  // Frames and bytes sent on this connection.
  uint64_t frames_sent() const { return frames_sent_; }
  uint64_t bytes_sent() const { return bytes_sent_; }

  bool has_room(uint64_t bytes) const {
    return bytes_outstanding_ == 0 || bytes_outstanding_ + bytes <= window_;
  }
  // How long the path is busy with so many bytes.
  TimeNs wire_time(uint64_t bytes) const;
  // How long `bytes` would take if the path were idle.
  TimeNs time_alone(uint64_t bytes, TimeNs now) const {
    return delay_to_compare(now) + wire_time(bytes);
  }
  // When `bytes` more would be acknowledged if they were sent now.
  TimeNs finish_at(uint64_t bytes, TimeNs now) const;
  // The oldest transmission is overdue since this time; kNever when nothing is under way.
  TimeNs overdue_at() const {
    return outstanding_.empty() ? kNever : outstanding_.front().expected_at;
  }
  // Time in which nobody here could look does not count against the path.
  void excuse(TimeNs duration);

  // So many paths of this host have bytes under way through the same NIC, this one included.
  void share_nic(size_t paths) { nic_paths_ = std::max<size_t>(paths, 1); }

  double bytes_per_ns() const { return rate_; }
  bool rate_known() const { return rate_known_; }
  // What the path has shown that it can do at least: the rate, or while that is not known the most
  // that the last few had which were alone on the path, or bursts; 0 when there was none. That may
  // be a token bucket's.
  double shown_bytes_per_ns() const {
    return rate_known_ ? rate_ : *std::max_element(recent_rates_.begin(), recent_rates_.end());
  }
  // It has shown that it is.
  bool is_slow(double best_bytes_per_ns) const {
    return rate_known_ && rate_ < kSlowShare * best_bytes_per_ns;
  }
  // What the best paths of the link have shown. Its rate is taken over while this one has shown
  // nothing, and an error that even the best path has is not this one's.
  struct Best {
    double bytes_per_ns = kRateInitial;
    TimeNs delay = kNever;
    TimeNs deviation = kNever;
  };
  void compare(const Best& best);
  // It looked worse than the best, and was idle since: only a probe can tell whether it still does.
  bool wants_probe(TimeNs now) const;
  // It is trusted with far more than it had shown, until some transmissions were in time or one was
  // not: who waits for it may wait long.
  bool doubtful() const { return trial_from_ > 0 && 4 * trial_from_ < rate_; }
  TimeNs base_delay() const { return base_delay_; }
  // The least of the last few that were alone on the path: base_delay() forgets only in seconds.
  TimeNs recent_delay() const;
  // kNever while it is hardly known.
  TimeNs deviation() const { return deviations_ < kDeviations ? kNever : deviation_; }
  uint64_t window() const { return window_; }
  TimeNs last_delivery_at() const { return last_delivery_at_; }
  // How much later than expected an acknowledgement may be before anybody wonders.
  TimeNs slack() const;

  void check_invariants() const;

 private:
  TimeNs wire_time_at_most(uint64_t bytes) const;
  TimeNs delay_to_compare(TimeNs now) const;
  bool looks_long() const;
  TimeNs frames_ahead_at_best() const;
  void learn_deviation(const Transmission& transmission, TimeNs now);
  void learn_delay(const Transmission& transmission, TimeNs at);
  void show(uint64_t bytes, TimeNs elapsed);
  void learn_burst(const Transmission& first, const Transmission& last, TimeNs at);
  void correct_delay(const Transmission& queued, TimeNs now);
  void learn_alone(const Transmission& transmission, TimeNs at);
  void end_trial(bool passed, TimeNs at);
  void measure_rate(const Transmission& last, uint64_t bytes, TimeNs now);
  void learn_lateness(const Transmission& transmission, TimeNs now);
  void resize_window(uint64_t delivered);

  std::deque<Transmission> outstanding_;  // numbered frames_delivered_ to frames_sent_ - 1
  uint64_t bytes_outstanding_ = 0;        // the sum over outstanding_; <= bytes_sent_
  uint64_t frames_sent_ = 0;
  uint64_t frames_delivered_ = 0;  // <= frames_sent_
  uint64_t bytes_sent_ = 0;
  TimeNs last_delivery_at_ = 0;
  TimeNs told_at_ = 0;           // when the receiver last said what had arrived
  TimeNs interval_at_ = 0;       // when the running measurement began; 0: the path is idle
  uint64_t interval_bytes_ = 0;  // delivered since
  uint64_t interval_filled_ =
      0;  // <= interval_bytes_: of these, what shows the path's rate: it was half full, or slow

  double rate_ = kRateInitial;  // > 0; bytes per ns
  bool rate_known_ = false;
  std::array<double, 8> recent_rates_{};
  uint32_t rate_samples_ = 0;
  int alone_late_ = 0;     // in a row
  double alone_best_ = 0;  // the highest rate that one of these has shown
  // While it is trusted on trial with more than it had shown: that rate, and how many transmissions
  // more must be in time. After a trial that failed the next one has to wait, twice as long each
  // time.
  double trial_from_ = 0;  // 0: it is not on trial
  int trial_left_ = 0;     // > 0 while it is
  TimeNs next_trial_ = 0;
  TimeNs trial_wait_ = kTrialWaitMin;  // kTrialWaitMin to kTrialWaitMax
  TimeNs base_delay_ = kDelayInitial;  // > 0
  uint32_t delay_samples_ = 0;
  std::array<TimeNs, 4> recent_delays_{};
  Best best_;                      // of the link's paths
  TimeNs delay_min_now_ = kNever;  // minimum of the running period and of the one before
  TimeNs delay_min_before_ = kNever;
  TimeNs delay_period_at_ = 0;
  TimeNs guessed_elapsed_ = kNever;  // the quickest of those sent into the idle path so far, while
  uint64_t guessed_bytes_ = 0;       // its rate and so its time on the wire was only guessed
  TimeNs deviation_ = 0;
  uint64_t deviations_ = 0;           // that it was learned from
  uint64_t window_ = kWindowInitial;  // > 0, <= kWindowBytesMax
  size_t nic_paths_ = 1;              // >= 1
  uint64_t frame_bytes_ = 0;          // of the last that was delivered

  static constexpr TimeNs kDelayInitial = 1 * kMillisecond;
  static constexpr TimeNs kTrialWaitMin = 250 * kMillisecond;
  static constexpr uint64_t kWindowInitial = 128 * 1024;
  static constexpr uint64_t kDeviations = 16;
  // A path below this share of the best is probed while it is idle.
  static constexpr double kSlowShare = 0.75;
};

}  // namespace r2ccl
