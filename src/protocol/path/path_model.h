// The estimates of one end about one path's forward direction: the outstanding transmissions, the
// rate, and the loss deadline of each transmission. Pure.
//
// The rate is the bytes delivered in an interval in which the path was never idle. The interval is
// so long that a burst, which a token bucket or a switch's memory lets through, does not matter.
// Traffic that did not fill the path can only raise the rate. A transmission that came late while
// the path was suspect lowers it at once, and so do three in a row that were alone on the path.
// Until a path has shown a rate, the best path's rate is its prior.
//
// A path that is slower than the best gets bandwidth probes while it is idle. When one of those is
// fast, the path gets chunks again, on probation: a token bucket passes a probe quickly, and that
// says nothing about its rate. Whether a path is longer than others, the receiver's clock tells
// (peer_clock.h). So neither the way back of an acknowledgement nor its delay counts. The window
// covers the rate, min_rtt and the usual lateness, and no more. Chunks beyond it wait in user
// space, where a better path can still take them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fifo.h"
#include "base/ids.h"
#include "base/limits.h"
#include "protocol/delivery/send_ledger.h"
#include "protocol/path/peer_clock.h"

namespace r2ccl {

// One data frame in flight.
struct Transmission {
  uint64_t number = 0;
  uint32_t bytes = 0;     // header and payload
  bool probe = false;     // carries no chunk
  bool in_place = false;  // the connection may read the payload where it is
  ChannelId channel;
  ChunkRef chunk;
  TimeNs sent_at = 0;
  TimeNs due_at = 0;        // predicted ack time, if the path keeps its rate
  TimeNs expected_at = 0;   // loss deadline, with margin for the rate and for other links' bytes
  uint64_t ahead = 0;       // bytes outstanding at its send, itself included
  TimeNs slack = 0;         // loss timeout margin: part of expected_at beyond the estimate
  TimeNs wire_time = 0;     // time of the bytes outstanding on its path or NIC: the longer one
  bool found_idle = false;  // nothing else was outstanding at its send
  // The path had probably taken everything before it at its send, though perhaps not delivered it.
  bool begins_train = false;
  TimeNs left_at = 0;   // predicted: the path has taken it then
  bool filled = false;  // the path was at least half full then
};

class PathModel {
 public:
  // More than the largest MTU, and enough to tell a slow path's time from scheduling noise.
  static constexpr uint64_t kProbeBytes = 16 * 1024;
  static constexpr double kRateInitial = limits::kRateInitial;

  // Starts a fresh connection with nothing outstanding. Keeps the rate of earlier connections.
  void reset();
  // Takes this rate for that of a path whose medium is known, until the path has shown its own.
  // Such a path needs no slow start. Must follow each reset().
  void expect(double bytes_per_ns);

  // `nic_time`: time of all bytes outstanding through the NIC, this transmission included.
  void on_sent(Transmission transmission, TimeNs now, TimeNs nic_time = 0);
  // Records that the receiver has wholly received `frames` data frames of this connection. Appends
  // the newly received ones, oldest first. Returns false when this end never sent so many.
  // `arrival` is that of the last one. `suspected`: lateness counts as the path's own.
  [[nodiscard]] bool on_delivered(uint64_t frames, FrameArrival arrival, bool suspected, TimeNs now,
                                  std::vector<Transmission>& delivered);

  // Returns all outstanding transmissions, oldest first.
  const Fifo<Transmission>& outstanding() const { return outstanding_; }
  // Returns them for the last time: reset() must follow.
  Fifo<Transmission> take_outstanding() { return std::exchange(outstanding_, {}); }
  uint64_t bytes_outstanding() const { return bytes_outstanding_; }
  // Returns the part of these bytes for which a transmission would wait now.
  uint64_t bytes_queued(TimeNs now) const;
  // Return the frames and bytes sent on this connection.
  uint64_t frames_sent() const { return frames_sent_; }
  uint64_t bytes_sent() const { return bytes_sent_; }

  bool has_room(uint64_t bytes) const {
    return bytes_outstanding_ == 0 || bytes_outstanding_ + bytes <= window_;
  }
  // Returns how long the path is busy with `bytes`.
  TimeNs wire_time(uint64_t bytes) const;
  // Returns how long `bytes` would take if the path were idle.
  TimeNs time_alone(uint64_t bytes, TimeNs now) const {
    return delay_to_compare(now) + wire_time(bytes);
  }
  // Returns the time at which `bytes` more would be acknowledged if they were sent now.
  TimeNs finish_at(uint64_t bytes, TimeNs now) const;
  // Returns the loss deadline of the oldest transmission; kNever when nothing is outstanding.
  TimeNs overdue_at() const {
    return outstanding_.empty() ? kNever : outstanding_.front().expected_at;
  }
  // Moves all deadlines by a pause in which this process could not look.
  void compensate_pause(TimeNs duration);

  // Tells the model how many paths of this host have bytes outstanding through the same NIC, this
  // one included.
  void share_nic(size_t paths) { nic_paths_ = std::max<size_t>(paths, 1); }

  double bytes_per_ns() const { return rate_; }
  bool rate_known() const { return rate_known_; }
  // Returns the maximum observed rate: the rate, or while that is not known the highest among the
  // last few app-limited samples and bursts; 0 without any. A token bucket may have caused it.
  double shown_bytes_per_ns() const {
    return rate_known_ ? rate_ : *std::max_element(recent_rates_.begin(), recent_rates_.end());
  }
  // Returns the rate, or while that is not known the median of the last app-limited samples: few of
  // them are bursts. At least kRateInitial then.
  double believed_bytes_per_ns() const;
  // Returns whether the path has shown that it is slow.
  bool is_slow(double best_bytes_per_ns) const {
    return rate_known_ && rate_ < kSlowShare * best_bytes_per_ns;
  }
  // The estimates of the link's best paths. The rate is the prior of a path that has shown none. An
  // error that even the best path has is not this one's.
  struct Best {
    double bytes_per_ns = kRateInitial;
    TimeNs delay = kNever;        // the least min_rtt
    TimeNs one_way = kNever;      // the least recent_one_way()
    TimeNs one_way_max = kNever;  // the least greatest_one_way()
    TimeNs deviation = kNever;
  };
  void compare(const Best& best);
  // Returns whether the path looked worse than the best and has been idle since, so that only a
  // bandwidth probe can tell whether it still is.
  bool wants_probe(TimeNs now) const;
  // Returns the size of that probe's payload.
  uint64_t probe_bytes() const;
  // Returns whether the path is on probation far above the rate that it had shown: until some
  // transmissions were in time, or one was late. A chunk on it may take long.
  bool doubtful() const { return trial_from_ > 0 && 4 * trial_from_ < rate_; }
  TimeNs base_delay() const { return base_delay_; }
  // Return the least of the last few one-way delays without wire time, and the greatest of the last
  // several; kNever before there are so many. They contain the difference between the clocks of the
  // two ends, which is the same on all paths of a link.
  TimeNs recent_one_way() const { return recent_one_way_; }
  TimeNs greatest_one_way() const { return greatest_one_way_; }
  // Returns the time of the last of them.
  TimeNs one_way_at() const { return one_way_at_; }
  // Returns rttvar; kNever while it is hardly known.
  TimeNs deviation() const { return deviations_ < kDeviations ? kNever : deviation_; }
  uint64_t window() const { return window_; }
  // Returns the part of the window that takes `duration`: what the path is likely to carry in it.
  uint64_t bytes_in(TimeNs duration) const;
  TimeNs last_delivery_at() const { return last_delivery_at_; }
  // Returns the loss timeout margin: how late an acknowledgement may be before the path is overdue.
  TimeNs slack() const;

  void check_invariants() const;

 private:
  TimeNs wire_time_at_most(uint64_t bytes) const;
  TimeNs delay_to_compare(TimeNs now) const;
  TimeNs noise() const;
  TimeNs excess() const;
  bool looks_long() const { return excess() > 0; }
  TimeNs probe_interval() const;
  void add_one_way(TimeNs one_way, TimeNs now);
  void learn_deviation(const Transmission& transmission, TimeNs now);
  void learn_delay(const Transmission& transmission, TimeNs at);
  void learn_shown(std::span<const Transmission> batch, TimeNs at);
  void show(double bytes_per_ns);
  void correct_delay(const Transmission& queued, TimeNs now);
  void learn_alone(const Transmission& transmission, TimeNs at, TimeNs one_way);
  void end_trial(bool passed, TimeNs at);
  void measure_rate(const Transmission& last, uint64_t bytes, TimeNs now);
  void learn_lateness(const Transmission& transmission, TimeNs now);
  TimeNs window_time() const;
  void resize_window(const Transmission& last, uint64_t delivered, TimeNs at);

  Fifo<Transmission> outstanding_;  // numbered frames_delivered_ to frames_sent_ - 1
  uint64_t bytes_outstanding_ = 0;  // the sum over outstanding_; <= bytes_sent_
  uint64_t frames_sent_ = 0;
  uint64_t frames_delivered_ = 0;  // <= frames_sent_
  uint64_t bytes_sent_ = 0;
  uint64_t chunk_bytes_ = kProbeBytes;  // of the last frame with a chunk
  TimeNs last_delivery_at_ = 0;
  TimeNs told_at_ = 0;      // when the receiver's last acknowledgement came, or could have come
  TimeNs interval_at_ = 0;  // when the running measurement began; 0: the path is idle
  uint64_t interval_bytes_ = 0;   // delivered since
  uint64_t interval_filled_ = 0;  // <= interval_bytes_: the part that shows the path's rate

  double rate_ = kRateInitial;  // > 0; bytes per ns
  bool rate_known_ = false;
  std::array<double, 8> recent_rates_{};
  double recent_rate_ = 0;  // their median
  uint32_t rate_samples_ = 0;
  TimeNs train_began_at_ = 0;  // the send of the last delivered one that began a train
  uint64_t train_bytes_ = 0;   // delivered since
  int alone_late_ = 0;         // in a row
  double alone_best_ = 0;      // the highest rate that one of these has shown
  // While it is trusted on trial with more than it had shown: that rate, and how many transmissions
  // more must be in time. After a trial that failed the next one has to wait, twice as long each
  // time.
  double trial_from_ = 0;  // 0: it is not on trial
  int trial_left_ = 0;     // > 0 while it is
  TimeNs next_trial_ = 0;
  TimeNs trial_wait_ = kTrialWaitMin;  // kTrialWaitMin to kTrialWaitMax
  TimeNs base_delay_ = kDelayInitial;  // > 0
  std::array<TimeNs, 8> one_ways_{};   // app-limited samples, a ring
  uint32_t one_way_samples_ = 0;
  TimeNs recent_one_way_ = kNever;
  TimeNs greatest_one_way_ = kNever;
  TimeNs one_way_at_ = 0;
  Best best_;                      // among the link's paths
  TimeNs delay_min_now_ = kNever;  // minimum of the running period and of the previous one
  TimeNs delay_min_before_ = kNever;
  TimeNs delay_period_at_ = 0;
  // The quickest transmission into the idle path while its rate, and so its wire time, was a guess.
  TimeNs guessed_elapsed_ = kNever;
  uint64_t guessed_bytes_ = 0;
  TimeNs deviation_ = 0;
  uint64_t deviations_ = 0;                        // that it was learned from
  uint64_t window_ = limits::kWindowBytesInitial;  // > 0, <= kWindowBytesMax
  size_t nic_paths_ = 1;                           // >= 1

  static constexpr TimeNs kDelayInitial = 1 * kMillisecond;
  static constexpr TimeNs kTrialWaitMin = 250 * kMillisecond;
  static constexpr uint64_t kDeviations = 16;
  // The sender probes a path below this share of the best while it is idle.
  static constexpr double kSlowShare = 0.75;
};

}  // namespace r2ccl
