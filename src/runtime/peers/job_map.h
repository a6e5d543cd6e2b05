// The ranks of a job, as one of them sees it, and the hosts that they are on. Hosts are numbered in
// the order of their lowest ranks, so all ranks number them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {

class JobMap {
 public:
  JobMap() = default;
  // Ranks with equal host ids share a host.
  JobMap(Rank self, std::vector<RankInfo> ranks);
  // Ranks with equal numbers in `host_of` share a host.
  JobMap(Rank self, std::vector<RankInfo> ranks, std::span<const uint32_t> host_of);

  Rank self() const { return self_; }
  const RankInfo& own_info() const { return info(self_); }
  size_t size() const { return ranks_.size(); }
  bool has(Rank rank) const { return rank.value() >= 0 && index(rank) < size(); }
  const std::vector<RankInfo>& ranks() const { return ranks_; }
  const RankInfo& info(Rank rank) const { return ranks_[index(rank)]; }
  // For the addresses and ports of its NICs, which may change during the job.
  RankInfo& info(Rank rank) { return ranks_[index(rank)]; }

  size_t hosts() const { return hosts_.size(); }
  uint32_t host_of(Rank rank) const { return host_of_[index(rank)]; }
  // Returns the host of each rank.
  const std::vector<uint32_t>& host_numbers() const { return host_of_; }
  // Returns the ranks of a host in ascending order.
  const std::vector<Rank>& ranks_of(size_t host) const { return hosts_[host]; }
  // Returns the lowest rank of a host.
  Rank leader(size_t host) const { return hosts_[host].front(); }
  // Returns the name of a host in its lowest rank's words.
  const std::string& host_name(size_t host) const { return info(leader(host)).host_name; }
  const std::string& host_name(Rank rank) const { return host_name(size_t{host_of(rank)}); }

 private:
  static size_t index(Rank rank) { return static_cast<size_t>(rank.value()); }

  Rank self_;
  std::vector<RankInfo> ranks_;
  std::vector<uint32_t> host_of_;
  std::vector<std::vector<Rank>> hosts_;
};

}  // namespace r2ccl
