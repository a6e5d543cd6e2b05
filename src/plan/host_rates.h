// The rates of the hosts of a view, each as one number: the sum of its NICs.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "plan/view.h"

namespace r2ccl {

// By host, in the order of the view. No rate is 0.
struct TotalRates {
  std::vector<uint64_t> send;
  std::vector<uint64_t> receive;

  size_t size() const { return send.size(); }
  // Returns whether all hosts are alike.
  bool equal() const;
  // Returns the least of both rates of a host.
  uint64_t least_of(size_t host) const;
};

// Returns equal rates for the empty view.
TotalRates total_rates(const View& view, size_t hosts);
// Returns the rates of the hosts of a call.
TotalRates total_rates(const PlanKey& key);
// Returns the number of hosts of a call.
size_t host_count(const PlanKey& key);

}  // namespace r2ccl
