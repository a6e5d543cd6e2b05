#include "plan/host_rates.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl {

uint64_t TotalRates::least_of(size_t host) const {
  return std::min(send[host], receive[host]);
}

TotalRates total_rates(const View& view, size_t hosts) {
  if (view.empty()) {
    return {std::vector<uint64_t>(hosts, kWholeNic), std::vector<uint64_t>(hosts, kWholeNic)};
  }
  R2CCL_CHECK(view.hosts().size() == hosts);
  TotalRates total;
  for (const HostRates& rates : view.hosts()) {
    uint64_t send = 0;
    uint64_t receive = 0;
    for (const NicRate& nic : rates) {
      send += nic.send;
      receive += nic.receive;
    }
    total.send.push_back(send);
    total.receive.push_back(receive);
  }
  const uint64_t most =
      std::max(*std::ranges::max_element(total.send), *std::ranges::max_element(total.receive));
  if (most <= kTotalRateMax) return total;
  for (std::vector<uint64_t>* rates : {&total.send, &total.receive}) {
    for (uint64_t& rate : *rates) rate = std::max<uint64_t>(rate * kTotalRateMax / most, 1);
  }
  return total;
}

TotalRates total_rates(const PlanKey& key) {
  return total_rates(key.view, host_count(key));
}

std::vector<Rank> ranks_of_host(const PlanKey& key, uint32_t host) {
  if (key.hosts.empty()) return {Rank(static_cast<int32_t>(host))};
  return key.hosts.hosts()[host];
}

size_t host_count(const PlanKey& key) {
  return key.hosts.empty() ? static_cast<size_t>(key.rank_count) : key.hosts.hosts().size();
}

}  // namespace r2ccl
