#include "plan/hosts/view.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/hash.h"

namespace r2ccl {
namespace {

Status check_host(size_t host, const HostRates& rates) {
  uint64_t send = 0;
  uint64_t receive = 0;
  const auto named = [&] { return "host " + std::to_string(host) + " of the view "; };
  for (const NicRate& nic : rates) {
    if (std::max(nic.send, nic.receive) > kNicRateMax) {
      return {Code::invalid_argument,
              named() + "has a NIC of " + std::to_string(std::max(nic.send, nic.receive)) +
                  "/1000; a NIC has at most " + std::to_string(kNicRateMax) + "/1000"};
    }
    send += nic.send;
    receive += nic.receive;
  }
  if (send > 0 && receive > 0) return {};
  return {Code::invalid_argument, named() + "can " + (send == 0 ? "send" : "receive") +
                                      " nothing; a view names only hosts that the others reach"};
}

}  // namespace

Result<View> View::of(std::vector<HostRates> hosts) {
  for (size_t host = 0; host < hosts.size(); ++host) {
    R2CCL_RETURN_IF_ERROR(check_host(host, hosts[host]));
  }
  View view;
  const auto is_first = [&](const HostRates& rates) { return rates == hosts.front(); };
  if (std::ranges::all_of(hosts, is_first)) return view;
  for (const HostRates& rates : hosts) {
    view.hash_ = hash_of({view.hash_, rates.size()});
    for (const NicRate& nic : rates) view.hash_ = hash_of({view.hash_, nic.send, nic.receive});
  }
  view.hosts_ = std::make_shared<const std::vector<HostRates>>(std::move(hosts));
  return view;
}

std::vector<HostRates> without_rails(const std::vector<HostRates>& hosts) {
  std::vector<HostRates> joined;
  for (const HostRates& rates : hosts) {
    NicRate sum{0, 0};
    for (const NicRate& nic : rates) {
      sum.send = std::min(sum.send + nic.send, kNicRateMax);
      sum.receive = std::min(sum.receive + nic.receive, kNicRateMax);
    }
    joined.push_back({sum});
  }
  return joined;
}

bool operator==(const View& a, const View& b) {
  if (a.hosts_ == b.hosts_) return true;
  return a.hash_ == b.hash_ && !a.empty() && !b.empty() && a.hosts() == b.hosts();
}

}  // namespace r2ccl
