// A path of a known rate and delay, and a sender that fills it, for tests of the path model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/limits.h"
#include "protocol/path/path_model.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

inline constexpr TimeNs kStart = 1000 * kSecond;
inline constexpr double kGigabit250 = 0.03125;  // 250 Mbit/s in bytes per nanosecond

// A path with a rate, a round trip, and at first a token bucket that lets a burst through at once.
class Wire {
 public:
  Wire(double bytes_per_ns, TimeNs round_trip, uint64_t burst = 0)
      : rate(bytes_per_ns), round_trip_(round_trip), tokens_(static_cast<double>(burst)) {}

  // Returns when the acknowledgement of bytes that are sent now comes.
  TimeNs acknowledged_at(uint64_t bytes, TimeNs now) {
    const double free_ride = std::min(tokens_, static_cast<double>(bytes));
    tokens_ -= free_ride;
    const double slow = (static_cast<double>(bytes) - free_ride) / rate;
    busy_until_ = std::max(busy_until_, now) + static_cast<TimeNs>(slow);
    return busy_until_ + round_trip_;
  }

  void give_tokens(uint64_t bytes) { tokens_ = static_cast<double>(bytes); }

  double rate;

 private:
  TimeNs round_trip_;
  double tokens_;
  TimeNs busy_until_ = 0;
};

// A sender with more to send than the path can take, and its receiver.
class Driver {
 public:
  explicit Driver(const Wire& path) : wire(path) {}

  void send(uint32_t bytes) {
    Transmission transmission;
    transmission.bytes = bytes;
    model.on_sent(transmission, now);
    acknowledgements_.push_back(wire.acknowledged_at(bytes, now));
  }
  // In these tests all of the round trip is on the way there, and the clocks agree.
  FrameArrival arrival() const { return {.at = now - held, .known_for = held}; }
  // Delivers the next acknowledgement.
  void receive(bool suspected = false) {
    now = std::max(now, acknowledgements_.front());
    acknowledgements_.pop_front();
    late = std::max(late, now - model.overdue_at());
    ASSERT_TRUE(model.on_delivered(++frames_, arrival(), suspected, now, delivered));
    window_max = std::max(window_max, model.window());
  }
  // Delivers both acknowledgements at once, when the second is there.
  void receive_both() {
    now = std::max(now, acknowledgements_[1]);
    acknowledgements_.erase(acknowledgements_.begin(), acknowledgements_.begin() + 2);
    frames_ += 2;
    ASSERT_TRUE(model.on_delivered(frames_, arrival(), false, now, delivered));
  }
  void fill() {
    while (true) {
      const uint32_t cut =
          chunk_cut(limits::kMessageBytesMax, 1, model.bytes_in(limits::kChunkDuration));
      if (!model.has_room(cut + kDataHeaderBytes)) return;
      send(cut + static_cast<uint32_t>(kDataHeaderBytes));
    }
  }
  void run_for(TimeNs duration, bool suspected = false) {
    const TimeNs end = now + duration;
    fill();
    while (!acknowledgements_.empty() && acknowledgements_.front() <= end) {
      receive(suspected);
      fill();
    }
    now = end;
  }
  // Lets the sender run only once every `period`.
  void run_late_for(TimeNs duration, TimeNs period) {
    for (const TimeNs end = now + duration; now < end;) {
      fill();
      now += period;
      while (!acknowledgements_.empty() && acknowledgements_.front() <= now) receive();
    }
  }
  void drain() {
    while (!acknowledgements_.empty()) receive();
  }
  // Sends one message at a time, each into an idle path.
  void ping_pong(uint32_t bytes, TimeNs pause, int times) {
    for (int i = 0; i < times; ++i) {
      send(bytes);
      receive();
      now += pause;
    }
  }

  Wire wire;
  PathModel model;
  TimeNs now = kStart;
  TimeNs held = 0;  // delay of the receiver's acknowledgement
  TimeNs late = INT64_MIN;
  uint64_t window_max = 0;
  std::vector<Transmission> delivered;

 private:
  std::deque<TimeNs> acknowledgements_;
  uint64_t frames_ = 0;
};

inline double in_percent(double part, double whole) {
  return 100 * part / whole;
}

inline PathModel::Best best_path(TimeNs delay) {
  const TimeNs most = delay + 400 * kMicrosecond;
  return {kGigabit250, delay, delay, most, 0};
}

}  // namespace r2ccl
