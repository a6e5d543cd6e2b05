#include "runtime/peers/job_map.h"

#include <map>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

std::vector<uint32_t> hosts_by_id(const std::vector<RankInfo>& ranks) {
  std::map<HostId, uint32_t> number_of;
  std::vector<uint32_t> host_of;
  for (const RankInfo& info : ranks) {
    const auto next = static_cast<uint32_t>(number_of.size());
    host_of.push_back(number_of.try_emplace(info.host, next).first->second);
  }
  return host_of;
}

}  // namespace

JobMap::JobMap(Rank self, std::vector<RankInfo> ranks) {
  const std::vector<uint32_t> host_of = hosts_by_id(ranks);
  *this = JobMap(self, std::move(ranks), host_of);
}

JobMap::JobMap(Rank self, std::vector<RankInfo> ranks, std::span<const uint32_t> host_of)
    : self_(self), ranks_(std::move(ranks)) {
  R2CCL_CHECK(has(self) && ranks_.size() == host_of.size());
  std::map<uint32_t, uint32_t> number_of;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto next = static_cast<uint32_t>(hosts_.size());
    const auto [found, first] = number_of.try_emplace(host_of[rank], next);
    if (first) hosts_.emplace_back();
    host_of_.push_back(found->second);
    hosts_[found->second].emplace_back(static_cast<int32_t>(rank));
  }
}

}  // namespace r2ccl
