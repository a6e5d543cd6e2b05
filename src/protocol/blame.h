// From what ranks saw of their paths to one verdict a fault: who, which NIC, what kind. Pure.
//
// A verdict says what the evidence can tell and no more. An interface that its own host saw go down
// or lose its carrier, or told a peer so, is named. A NIC whose paths to at least two other hosts
// broke together is named. A single broken pair is "between": the side is unknown, and both ends
// are given. When one NIC of every host lost all others of these, with no NIC that explains it, the
// rail is named: its switch, or what feeds it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  uint64_t up_us = 0;  // for how long the path had been up
  TimeNs wall = 0;
  friend bool operator==(const Observation&, const Observation&) = default;
};

// What a verdict is about.
enum class Scope : uint8_t {
  nic = 0,   // `culprit`, its cable or its port
  pair = 1,  // `culprit` or `other`, or what lies between: the side is unknown
  rail = 2,  // what connects the NICs of all hosts; `culprit` is that of the first host
};
const char* to_string(Scope scope);

struct Verdict {
  uint32_t number = 0;  // the same on every rank
  Scope scope = Scope::nic;
  NicName culprit;
  Rank rank;      // the observer whose evidence decided
  NicName other;  // of a pair
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

// Collects observations for a short while, so that what one fault caused is told once. Each fault
// has its own time, from the first observation that no verdict explains.
class Judge {
 public:
  // `hosts`: how many the job has.
  explicit Judge(uint32_t hosts) : hosts_(hosts) {}

  void observe(const Observation& observation, TimeNs now);
  // Verdicts that are ripe.
  std::vector<Verdict> due(TimeNs now);
  TimeNs next_timeout() const;

 private:
  // Long enough for both ends and all peers of a NIC to have noticed under traffic.
  static constexpr TimeNs kPatience = 250 * kMillisecond;
  // Paths that carry nothing notice at their next heartbeat.
  static constexpr TimeNs kEcho = 2500 * kMillisecond;

  struct Open {
    Observation seen;
    TimeNs at = 0;
    TimeNs ripe_at = 0;
  };
  struct Recent {
    NicName nic;
    bool named = false;  // false: only one end of a pair
    TimeNs at = 0;
    TimeNs until() const { return at + kEcho; }
  };
  enum class RailEvidence : uint8_t { none, partial, full };

  bool absorbed(const Observation& observation, TimeNs now) const;
  std::vector<Open*> connected(const Open& seed);
  RailEvidence rail_evidence(const std::vector<Open*>& fault) const;
  bool reported(const NicName& nic) const;
  size_t hosts_opposite(const NicName& nic) const;
  TimeNs lost_elsewhere_at(const NicName& nic, const NicName& opposite) const;
  Verdict judge_rail(const std::vector<Open*>& fault, TimeNs now);
  NicName worse_end(const Observation& pair) const;
  Verdict judge_nic(const Observation& seed, TimeNs now);
  Verdict take(const std::function<bool(const Observation&)>& explained);
  void remember(const NicName& nic, bool named, TimeNs now);

  uint32_t hosts_;
  std::vector<Open> open_;  // in order of arrival
  std::vector<Recent> recent_;
};

}  // namespace r2ccl
