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

JobMap::JobMap(Rank self, std::vector<RankInfo> ranks)
    : HostMap(hosts_by_id(ranks)), self_(self), ranks_(std::move(ranks)) {
  R2CCL_CHECK(has(self));
}

}  // namespace r2ccl
