// The reports of the ranks on the NICs of their hosts, and the table that the deciding rank makes
// of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/hosts/view.h"
#include "protocol/health/rate_watch.h"

namespace r2ccl {

// How many of the other hosts a NIC reaches, and how many it misses. Hosts to which it has no path
// are in neither number. Both are zero where it misses no more than it reaches: the NICs of the
// missed hosts may be the cause, and those tell more.
struct NicReach {
  uint32_t reached = 0;
  uint32_t missed = 0;
  bool whole() const { return missed == 0; }
  friend bool operator==(const NicReach&, const NicReach&) = default;
};
NicReach reach_of(uint32_t reached, uint32_t missed);

// Nothing where there is no NIC, or one that is drained.
using HostReach = std::vector<std::optional<NicReach>>;

struct NicState {
  uint16_t rail = 0;
  std::optional<NicReach> reach;
  friend bool operator==(const NicState&, const NicState&) = default;
};

// Hosts and rails are those of the job.
struct NicReport {
  std::vector<NicState> nics;  // in order of their rails
  std::vector<SlowNic> slow;   // some of them, in order of their rails
  friend bool operator==(const NicReport&, const NicReport&) = default;
};
std::vector<std::byte> encode(const NicReport& report);
Result<NicReport> decode_nic_report(std::span<const std::byte> bytes);

// How much a NIC can carry.
struct RailRate {
  uint32_t host = 0;
  uint16_t rail = 0;
  NicRate rate;  // at most whole
  friend bool operator==(const RailRate&, const RailRate&) = default;
};
// The NICs that a rank has reported, in order of hosts and rails.
using RateTable = std::vector<RailRate>;
// As many as fit into one notice. A larger table goes out in parts, each of some hosts.
inline constexpr size_t kTableRatesMax = 400;

// Requires at most kTableRatesMax NICs.
std::vector<std::byte> encode(const RateTable& table);
Result<RateTable> decode_rate_table(std::span<const std::byte> bytes);

}  // namespace r2ccl
