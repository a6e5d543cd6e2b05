#include "plan/host_rates.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl {

bool TotalRates::equal() const {
  const auto all_equal = [](const std::vector<uint64_t>& rates) {
    return std::ranges::all_of(rates, [&](uint64_t rate) { return rate == rates.front(); });
  };
  return all_equal(send) && all_equal(receive);
}

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
  return total;
}

TotalRates total_rates(const PlanKey& key) {
  return total_rates(key.view, host_count(key));
}

size_t host_count(const PlanKey& key) {
  return key.hosts.empty() ? static_cast<size_t>(key.rank_count) : key.hosts.hosts().size();
}

}  // namespace r2ccl
