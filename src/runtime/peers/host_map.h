// The hosts that some ranks are on. Hosts are numbered in the order of their lowest ranks, so all
// ranks number them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace r2ccl {

class HostMap {
 public:
  HostMap() = default;
  // Ranks with equal numbers in `host_of` share a host.
  explicit HostMap(std::span<const uint32_t> host_of);

  size_t hosts() const { return first_.empty() ? 0 : first_.size() - 1; }
  uint32_t host_of(Rank rank) const { return host_of_[static_cast<size_t>(rank.value())]; }
  // Returns the host of each rank.
  const std::vector<uint32_t>& host_numbers() const { return host_of_; }
  // Returns the ranks of a host in ascending order.
  std::span<const Rank> ranks_of(size_t host) const {
    return std::span(by_host_).subspan(first_[host], first_[host + 1] - first_[host]);
  }
  // Returns the lowest rank of a host.
  Rank leader(size_t host) const { return by_host_[first_[host]]; }

 private:
  std::vector<uint32_t> host_of_;  // by rank
  std::vector<Rank> by_host_;      // the ranks of the first host, then those of the next
  std::vector<uint32_t> first_;    // by host: its first place in by_host_; then the end of it
};

}  // namespace r2ccl
