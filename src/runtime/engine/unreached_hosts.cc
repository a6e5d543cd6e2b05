#include "runtime/engine/unreached_hosts.h"

#include "base/log.h"

namespace r2ccl {

void UnreachedHosts::on_unreached(Rank peer, bool own, const std::string& why, TimeNs now) {
  Host& host = hosts_[job_.host_of(own ? job_.self() : peer)];
  if (host.ranks.empty()) {
    host.since = now;
    host.name = own ? "this host (" + job_.own_info().host_name + ")" : describe(job_.info(peer));
    R2CCL_LOG(warn, "%s is out of reach: %s; calls wait up to %lld s (R2CCL_CUTOFF_S)",
              host.name.c_str(), why.c_str(), static_cast<long long>(cutoff_ / kSecond));
  }
  host.ranks.insert(peer);
}

void UnreachedHosts::on_reached(Rank peer, TimeNs now) {
  for (auto& [number, host] : hosts_) {
    if (host.ranks.erase(peer) == 0 || !host.ranks.empty()) continue;
    R2CCL_LOG(warn, "%s is reached again, after %.1f s", host.name.c_str(),
              static_cast<double>(now - host.since) / 1e9);
  }
}

}  // namespace r2ccl
