#include "plan/host_groups.h"

#include <algorithm>
#include <map>

#include "base/hash.h"

namespace r2ccl {

HostGroups::HostGroups(std::span<const uint32_t> host_of) {
  std::vector<std::vector<Rank>> hosts;
  std::map<uint32_t, size_t> index_of;
  uint64_t hash = 0;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const size_t index = index_of.try_emplace(host_of[rank], hosts.size()).first->second;
    if (index == hosts.size()) hosts.emplace_back();
    hosts[index].emplace_back(static_cast<int32_t>(rank));
    hash = hash_of({hash, index});
  }
  if (hosts.size() == host_of.size()) return;
  for (const std::vector<Rank>& ranks : hosts) largest_ = std::max(largest_, ranks.size());
  hosts_ = std::make_shared<const std::vector<std::vector<Rank>>>(std::move(hosts));
  hash_ = hash;
}

const std::vector<std::vector<Rank>>& HostGroups::hosts() const {
  static const std::vector<std::vector<Rank>> kNone;
  return empty() ? kNone : *hosts_;
}

bool operator==(const HostGroups& a, const HostGroups& b) {
  return a.hosts_ == b.hosts_ || (a.hash_ == b.hash_ && a.hosts() == b.hosts());
}

}  // namespace r2ccl
