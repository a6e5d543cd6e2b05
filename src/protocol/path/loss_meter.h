// Counts the packets that one end of a path has lost lately, from the counters of its kernel. Pure.
//
// A retransmission is evidence of a loss only if the peer did not have the packet already (D-SACK,
// RFC 2883), and only after the connection has delivered something since: a connection that
// delivers nothing any more is silent, which is the failure detector's to judge. Losses come in
// bursts, because one full queue drops several packets in a row and a segmented super-packet is
// lost as a whole. So the meter also counts the periods with a loss, and the localiser trusts
// periods more than packets.
//
// A full queue loses packets, too, and nothing is broken: several senders that meet at one NIC fill
// its queue again and again. The packets before the lost one waited for all of that queue. A bad
// cable loses packets at any length of the queue, and at short ones most often, because each loss
// shrinks the window. So a period counts as one with a loss only if the queue was less than half
// full, by the round trip: the Spike test, for round trips in place of one-way ones (Cen, Cosman,
// Voelker, End-to-End Differentiation of Congestion and Wireless Losses, IEEE/ACM ToN 2003). Its
// errors do little harm here: a bad NIC has many periods with a loss, and enough of them count. A
// connection that loses a quarter of its packets has no round trip to go by, because those of
// retransmissions do not count (Karn and Partridge, SIGCOMM 1987).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace r2ccl {

// The counts of one path and one direction, over the meter's window.
struct LossCount {
  uint32_t sent = 0;     // packets
  uint32_t lost = 0;     // packets
  uint32_t periods = 0;  // in which something was sent
  uint32_t lossy = 0;    // part of these, with a loss that was not of a full queue
  friend bool operator==(const LossCount&, const LossCount&) = default;

  LossCount& operator+=(const LossCount& other) {
    sent += other.sent;
    lost += other.lost;
    periods += other.periods;
    lossy += other.lossy;
    return *this;
  }
  // Returns the packets lost of a million sent.
  uint32_t ppm() const {
    return sent == 0 ? 0 : static_cast<uint32_t>(uint64_t{1'000'000} * lost / sent);
  }
};

class LossMeter {
 public:
  static constexpr TimeNs kPeriod = 125 * kMillisecond;
  static constexpr size_t kPeriods = 32;

  // Counters of a connection, which only grow.
  struct Counters {
    uint64_t sent = 0;
    uint64_t lost = 0;  // retransmitted, less the spurious ones: may shrink
    uint64_t delivered = 0;
    TimeNs round_trip = 0;  // smoothed; 0: not known
    TimeNs least_round_trip = 0;
  };
  // The connections of a path. A delivery on one is no evidence for the other.
  static constexpr size_t kData = 0;
  static constexpr size_t kControl = 1;
  // Starts new connections, which count from 0.
  void reset() { last_ = {}; }
  // Requires kData or kControl, and a clock that does not run backwards.
  void sample(size_t connection, const Counters& counters, TimeNs now);
  // Returns the counts of the window up to `now`. If there is a second period with a loss, packets
  // count from after the first one: only this gives the rate of a loss that has just begun.
  LossCount count(TimeNs now) const;
  // Counts since the path was made.
  uint64_t sent() const { return sent_; }
  uint64_t lost() const { return lost_ < 0 ? 0 : static_cast<uint64_t>(lost_); }

 private:
  struct Period {
    uint32_t sent = 0;
    int32_t lost = 0;    // negative where a retransmission turned out to be spurious
    bool fault = false;  // some loss of it was not of a full queue
    TimeNs queue = 0;    // the longest time that packets waited
  };
  // `lost`: packets of the last `sent`.
  bool queue_is_full(const Counters& counters, int64_t lost, uint64_t sent, Period& now_running);
  static int64_t number_of(TimeNs at) { return at / kPeriod; }
  Period& period(int64_t number) { return periods_[static_cast<size_t>(number) % kPeriods]; }
  const Period& period(int64_t number) const {
    return periods_[static_cast<size_t>(number) % kPeriods];
  }

  std::array<Period, kPeriods> periods_{};
  int64_t newest_ = -1;  // the latest sample's period; periods_ holds it and those before it
  std::array<Counters, 2> last_{};
  uint64_t sent_ = 0;
  int64_t lost_ = 0;
};

}  // namespace r2ccl
