// Broadcast. Both forms number the ranks from the root: position 0 is the root.
//
// Chain: position i receives from i - 1 and sends to i + 1, segment by segment. Every rank sends
// the vector at most once; with K segments the last rank is done after (1 + (p - 2) / K) n / b,
// plus p - 1 latencies.
//
// Binomial tree: ceil(log2 p) hops. Position i receives from i without its lowest bit.
#include <algorithm>
#include <bit>

#include "plan/algorithms.h"

namespace r2ccl {
namespace {

struct Order {
  uint32_t ranks;
  uint32_t root;

  explicit Order(const PlanKey& key)
      : ranks(static_cast<uint32_t>(key.rank_count)),
        root(static_cast<uint32_t>(key.root.value())) {}

  uint32_t position(Rank rank) const {
    return (static_cast<uint32_t>(rank.value()) + ranks - root) % ranks;
  }
  Rank rank(uint32_t position) const {
    return Rank(static_cast<int32_t>((position + root) % ranks));
  }
};

}  // namespace

void build_chain_broadcast(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  const Order order(key);
  const uint32_t self = order.position(plan.rank());
  const uint64_t bytes = key.count * size_of(key.type);
  const uint64_t segment = segment_count(bytes / limits.segments_per_chain, key.type, limits);
  const Buffer buffer = self == 0 ? Buffer::input : Buffer::output;
  for_each_piece({buffer, 0, key.count}, segment, [&](const Region& piece) {
    if (self > 0) plan.receive(order.rank(self - 1), piece);
    if (self + 1 < order.ranks) plan.send(order.rank(self + 1), piece);
  });
}

void build_tree_broadcast(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan) {
  const Order order(key);
  const uint32_t self = order.position(plan.rank());
  const uint64_t segment = segment_count(limits.segment_bytes_max, key.type, limits);
  const Buffer buffer = self == 0 ? Buffer::input : Buffer::output;
  // Children are self + d for the powers of two d below the lowest bit of self.
  const uint32_t lowest = self == 0 ? std::bit_ceil(order.ranks) : self & (~self + 1);
  for_each_piece({buffer, 0, key.count}, segment, [&](const Region& piece) {
    if (self > 0) plan.receive(order.rank(self - lowest), piece);
    // The largest subtree goes first, because it needs the most further hops.
    for (uint32_t d = lowest / 2; d > 0; d /= 2) {
      if (self + d < order.ranks) plan.send(order.rank(self + d), piece);
    }
  });
}

}  // namespace r2ccl
