// The ranks of a job by host. Ranks of one host exchange bytes in memory, which costs less than the
// NICs that they share. So plans reduce within each host first.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"

namespace r2ccl {

class HostGroups {
 public:
  // Each rank has a host of its own.
  HostGroups() = default;
  // Ranks with equal numbers in `host_of` share a host. Other numbers for the same hosts give an
  // equal value.
  explicit HostGroups(std::span<const uint32_t> host_of);

  // Returns whether each rank has a host of its own; hosts() is empty then.
  bool empty() const { return hosts_ == nullptr; }
  // Returns the ranks of each host in ascending order. The hosts are in the order of their first
  // ranks.
  const std::vector<std::vector<Rank>>& hosts() const;
  // Returns the number of ranks of the largest host.
  uint64_t largest() const { return largest_; }
  // Returns 0 exactly when it is empty.
  uint64_t hash() const { return hash_; }

  friend bool operator==(const HostGroups& a, const HostGroups& b);

 private:
  std::shared_ptr<const std::vector<std::vector<Rank>>> hosts_;
  uint64_t largest_ = 1;
  uint64_t hash_ = 0;
};

}  // namespace r2ccl
