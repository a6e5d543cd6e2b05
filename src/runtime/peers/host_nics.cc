#include "runtime/peers/host_nics.h"

#include <algorithm>

#include "base/limits.h"
#include "base/mutant.h"
#include "runtime/peers/nic_match.h"

namespace r2ccl {
namespace {

// Returns a rank that would have all NICs of the host.
RankInfo together(std::span<const Rank> ranks, std::span<const RankInfo* const> infos) {
  RankInfo host;
  host.rank = ranks.front();
  for (const Rank rank : ranks) {
    if (mutated(Mutant::health_leader_nics) && rank != ranks.front()) break;
    for (const NicInfo& nic : infos[static_cast<size_t>(rank.value())]->nics) {
      const bool known = std::ranges::find(host.nics, nic.name, &NicInfo::name) != host.nics.end();
      if (!known && host.nics.size() < limits::kNicsMax) host.nics.push_back(nic);
    }
  }
  return host;
}

}  // namespace

HostNics::HostNics(const HostMap& map, std::span<const RankInfo* const> ranks) {
  std::vector<RankInfo> hosts;
  for (size_t host = 0; host < map.hosts(); ++host) {
    hosts.push_back(together(map.ranks_of(host), ranks));
    ranks_.emplace_back(map.ranks_of(host).begin(), map.ranks_of(host).end());
    std::vector<std::string>& names = names_.emplace_back();
    for (const NicInfo& nic : hosts.back().nics) names.push_back(nic.name);
  }
  std::vector<const RankInfo*> all;
  for (const RankInfo& host : hosts) all.push_back(&host);
  rails_ = match_rails(all);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint32_t host = map.host_of(Rank(static_cast<int32_t>(i)));
    std::vector<uint16_t>& rails = rank_rails_.emplace_back();
    for (const NicInfo& nic : ranks[i]->nics) {
      rails.push_back(rail_of(host, nic.name).value_or(UINT16_MAX));
    }
  }
}

std::optional<uint16_t> HostNics::rail_of(Rank rank, NicId nic) const {
  const std::vector<uint16_t>& rails = rank_rails_[static_cast<size_t>(rank.value())];
  if (nic.value() >= rails.size() || rails[nic.value()] == UINT16_MAX) return std::nullopt;
  return rails[nic.value()];
}

std::optional<uint16_t> HostNics::rail_of(size_t host, const std::string& name) const {
  const auto found = std::ranges::find(names_[host], name);
  if (found == names_[host].end()) return std::nullopt;
  return rails_[host][static_cast<size_t>(found - names_[host].begin())];
}

std::vector<Rank> HostNics::users_of_all(size_t host, const std::vector<bool>& ended) const {
  std::vector<Rank> users;
  std::vector<bool> taken(limits::kNicsMax);
  for (const Rank rank : ranks_[host]) {
    if (ended[static_cast<size_t>(rank.value())]) continue;
    bool adds = false;
    for (const uint16_t rail : rank_rails_[static_cast<size_t>(rank.value())]) {
      if (rail >= taken.size() || taken[rail]) continue;
      taken[rail] = adds = true;
    }
    if (adds) users.push_back(rank);
  }
  return users;
}

bool HostNics::uses(Rank rank, uint16_t rail) const {
  const std::vector<uint16_t>& rails = rank_rails_[static_cast<size_t>(rank.value())];
  return rail != UINT16_MAX && std::ranges::find(rails, rail) != rails.end();
}

}  // namespace r2ccl
