// The processes of a job, as one of them sees it, and the hosts that they are on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/peers/host_map.h"

namespace r2ccl {

class JobMap : public HostMap {
 public:
  JobMap() = default;
  // Ranks with equal host ids share a host.
  JobMap(Rank self, std::vector<RankInfo> ranks);

  Rank self() const { return self_; }
  const RankInfo& own_info() const { return info(self_); }
  size_t size() const { return ranks_.size(); }
  bool has(Rank rank) const { return rank.value() >= 0 && index(rank) < size(); }
  const std::vector<RankInfo>& ranks() const { return ranks_; }
  const RankInfo& info(Rank rank) const { return ranks_[index(rank)]; }
  // For the addresses and ports of its NICs, which may change during the job.
  RankInfo& info(Rank rank) { return ranks_[index(rank)]; }
  // Returns the name of a host in its lowest rank's words.
  const std::string& host_name(size_t host) const { return info(leader(host)).host_name; }

 private:
  static size_t index(Rank rank) { return static_cast<size_t>(rank.value()); }

  Rank self_;
  std::vector<RankInfo> ranks_;
};

}  // namespace r2ccl
