// From what ranks saw of their paths to one verdict a fault: who, which NIC, what kind. Pure.
//
// A verdict says what the evidence can tell and no more. An interface that its own host saw go down
// or lose its carrier, or told a peer so, is named. A NIC whose paths to at least two other hosts
// broke together is named. A single broken pair is "between": the side is unknown, and both ends
// are given.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/wire.h"

namespace r2ccl {

// A NIC of a host. Ranks of one host share its NICs, so the host counts and not the rank.
struct NicName {
  uint32_t host = 0;  // index into the job's table of hosts
  std::string nic;
  friend auto operator<=>(const NicName&, const NicName&) = default;
};

// One end's report that a path which had been up went down.
struct Observation {
  Rank observer;
  Rank peer;
  NicName near;  // the observer's end
  NicName far;
  DownCause cause = DownCause::none;       // what the observer saw
  DownCause peer_cause = DownCause::none;  // when `cause` is peer_notice: what the peer saw
  uint64_t detected_us = 0;
  uint64_t replayed_bytes = 0;
  uint64_t stall_us = 0;
  TimeNs wall = 0;
  friend bool operator==(const Observation&, const Observation&) = default;
};

struct Verdict {
  uint32_t number = 0;  // the same on every rank
  NicName culprit;
  Rank rank;               // the observer whose evidence decided
  bool side_known = true;  // false: `culprit` or `other`, or what lies between
  NicName other;           // when the side is unknown
  DownCause kind = DownCause::none;
  uint64_t detected_us = 0;  // the earliest report
  uint64_t replayed_bytes = 0;
  uint64_t stall_us = 0;  // the longest
  TimeNs wall = 0;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

std::vector<std::byte> encode(const Observation& observation);
Result<Observation> decode_observation(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const Verdict& verdict);
Result<Verdict> decode_verdict(std::span<const std::byte> bytes);

// Collects observations for a short while, so that what one fault caused is told once.
class Judge {
 public:
  void observe(const Observation& observation, TimeNs now);
  // Verdicts that are ripe.
  std::vector<Verdict> due(TimeNs now);
  TimeNs next_timeout() const { return open_.empty() ? kNever : opened_at_ + kPatience; }

 private:
  struct Recent {
    NicName nic;
    TimeNs until = 0;
  };
  bool absorbed(const Observation& observation, TimeNs now) const;
  void conclude(const NicName& culprit, bool side_known, const Observation& decisive, TimeNs now,
                std::vector<Verdict>& verdicts);

  // Long enough for both ends and all peers of a NIC to have noticed under traffic.
  static constexpr TimeNs kPatience = 250 * kMillisecond;
  // Paths that carry nothing notice at their next heartbeat.
  static constexpr TimeNs kEcho = 2500 * kMillisecond;

  std::vector<Observation> open_;
  TimeNs opened_at_ = 0;
  std::vector<Recent> recent_;
};

}  // namespace r2ccl
