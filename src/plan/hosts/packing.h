// Trees for an AllReduce among hosts whose rails or directions differ, in such numbers that the
// busiest NIC has as little to do as possible. Each tree has two ways: partial sums go to the root
// along one, and results leave it along another one. docs/schedules.md has the method, a
// multiplicative-weights packing (Plotkin, Shmoys, Tardos 1995; Young 1995) in integers: all ranks
// find the same trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/hosts/view.h"

namespace r2ccl {

// More hosts than these take too long: the time of a packing grows with the third power.
inline constexpr size_t kPackedHostsMax = 64;
// It also grows with the rails.
inline constexpr size_t kPackedRailsMax = 64;

struct Packing {
  struct Tree {
    uint32_t root = 0;
    // By host; the root has itself.
    std::vector<uint8_t> sum_to;
    std::vector<uint8_t> result_from;
  };
  // All have the same share of the vector, and so do the first ones, as many as a call has chunks.
  std::vector<Tree> trees;
  // The time of the busiest NIC, in 1/1024 of the time in which the fastest host could send or
  // receive the vector.
  uint64_t load = 0;
  uint64_t hops = 0;  // of a chunk on both ways: the mean, rounded up

  // Returns whether there is no tree: two hosts or more than kPackedHostsMax, or hosts that no
  // common rails connect.
  bool empty() const { return trees.empty(); }
};

// Returns trees for these hosts, whose NICs stand by rail. A message takes all rails that both of
// its hosts have, in proportion to their bandwidth.
Packing pack_trees(const std::vector<HostRates>& hosts);

}  // namespace r2ccl
