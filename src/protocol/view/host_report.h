// The report of a host on its own NICs, for the rank that proposes views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "protocol/view/rate_watch.h"

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

// By rail. Nothing where the host has no NIC, or one that is drained.
using HostReach = std::vector<std::optional<NicReach>>;

struct HostReport {
  HostReach reach;
  std::vector<SlowNic> slow;  // at most one entry for each NIC
  friend bool operator==(const HostReport&, const HostReport&) = default;
};
std::vector<std::byte> encode(const HostReport& report);
Result<HostReport> decode_host_report(std::span<const std::byte> bytes);

}  // namespace r2ccl
