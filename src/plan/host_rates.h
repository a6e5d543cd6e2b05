// The hosts of a call: their ranks, and their rates, each as one number.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/hosts/view.h"
#include "plan/plan.h"

namespace r2ccl {

// The largest of all rates. It leaves room for products of two rates and the number of hosts.
inline constexpr uint64_t kTotalRateMax = uint64_t{1} << 20;

// By host, in the order of the view: the sum of its NICs, in 1/1000 of a whole one, or a part of
// that where it is above the largest rate. No rate is 0.
struct TotalRates {
  std::vector<uint64_t> send;
  std::vector<uint64_t> receive;

  size_t size() const { return send.size(); }
  // Returns the least of both rates of a host.
  uint64_t least_of(size_t host) const;
};

// Returns equal rates for the empty view.
TotalRates total_rates(const View& view, size_t hosts);
TotalRates total_rates(const PlanKey& key);

size_t host_count(const PlanKey& key);
std::vector<Rank> ranks_of_host(const PlanKey& key, uint32_t host);

}  // namespace r2ccl
