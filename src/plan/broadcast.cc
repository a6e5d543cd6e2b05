// Broadcast; backwards it is Reduce. Both forms number the hosts from the root's, and the ranks of
// each host, on the root's from the root. Without host groups each rank has a host of its own.
//
// The chain visits all ranks of a host one after another, so that each NIC carries the vector once.
// The tree has two levels: the first ranks of the hosts, and the ranks of each host.
//
// Chain: rank number i receives from i - 1 and sends to i + 1, segment by segment. Every rank sends
// the vector at most once; with K segments the last rank is done after (1 + (p - 2) / K) n / b,
// plus p - 1 latencies.
//
// Binomial tree: ceil(log2 p) hops a level. Number i receives from i without its lowest bit.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "plan/algorithms.h"
#include "plan/host_rates.h"
#include "plan/ring_order.h"

namespace r2ccl {
namespace {

// The ranks of one level of a tree; the first one has the bytes.
struct Level {
  std::vector<Rank> ranks;
  uint32_t self = 0;
};

// The last host of a chain passes nothing on, so the slowest of the others than the root's is
// there.
void move_slowest_to_end(const PlanKey& key, std::vector<uint32_t>& order) {
  const TotalRates rates = total_rates(key);
  const std::vector<uint64_t>& passing_on =
      key.collective == Collective::broadcast ? rates.send : rates.receive;
  const auto slower = [&](uint32_t a, uint32_t b) { return passing_on[a] < passing_on[b]; };
  const auto slowest = std::min_element(order.begin() + 1, order.end(), slower);
  if (slower(*slowest, order.back())) std::rotate(slowest, slowest + 1, order.end());
}

// The hosts from the root's on.
class Order {
 public:
  Order(const PlanKey& key, Rank self) {
    std::vector<uint32_t> order = ring_order(key);
    const auto has_root = [&](uint32_t host) {
      const std::vector<Rank> ranks = ranks_of_host(key, host);
      return std::ranges::find(ranks, key.root) != ranks.end();
    };
    std::rotate(order.begin(), std::ranges::find_if(order, has_root), order.end());
    if (!key.view.empty()) move_slowest_to_end(key, order);
    for (const uint32_t host : order) hosts_.push_back(ranks_of_host(key, host));
    std::vector<Rank>& first = hosts_[0];
    std::rotate(first.begin(), std::ranges::find(first, key.root), first.end());
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      const auto found = std::ranges::find(hosts_[host], self);
      if (found == hosts_[host].end()) continue;
      host_ = host;
      self_ = static_cast<uint32_t>(found - hosts_[host].begin());
    }
    R2CCL_CHECK(first[0] == key.root);
    R2CCL_CHECK(self_ < hosts_[host_].size() && hosts_[host_][self_] == self);
  }

  // Returns all ranks, host by host.
  Level chain() const {
    Level chain;
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      if (host == host_) chain.self = static_cast<uint32_t>(chain.ranks.size()) + self_;
      chain.ranks.insert(chain.ranks.end(), hosts_[host].begin(), hosts_[host].end());
    }
    return chain;
  }
  Level own_host() const { return {hosts_[host_], self_}; }
  // Returns the first ranks of all hosts, to which this rank must belong.
  Level among_hosts() const {
    R2CCL_CHECK(is_first_of_host());
    Level first{{}, host_};
    for (const std::vector<Rank>& ranks : hosts_) first.ranks.push_back(ranks[0]);
    return first;
  }
  bool is_first_of_host() const { return self_ == 0; }

 private:
  std::vector<std::vector<Rank>> hosts_;
  uint32_t host_ = 0;  // the rank's host
  uint32_t self_ = 0;  // its position on the host
};

// Adds the transfers of one piece on one level of the tree.
void pass_on(const Level& level, const Range& piece, Transfers& transfers) {
  const uint32_t self = level.self;
  const auto size = static_cast<uint32_t>(level.ranks.size());
  R2CCL_CHECK(self < size);
  const uint32_t lowest = self == 0 ? std::bit_ceil(size) : self & (~self + 1);
  if (self > 0) transfers.receive(level.ranks[self - lowest], piece);
  // Children are self + d for the powers of two d below the lowest bit of self. The largest subtree
  // goes first, because it needs the most further hops.
  for (uint32_t d = lowest / 2; d > 0; d /= 2) {
    if (self + d < size) transfers.send(level.ranks[self + d], piece);
  }
}

// Calls f(piece) for each piece of the vector.
template <typename F>
void for_each_range(uint64_t count, uint64_t segment, F f) {
  for (uint64_t begin = 0; begin < count; begin += segment) {
    f(Range{begin, std::min(segment, count - begin)});
  }
}

}  // namespace

Transfers chain_broadcast(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const Level chain = Order(key, self).chain();
  const uint32_t at = chain.self;
  const uint64_t bytes = key.count * size_of(key.type);
  const uint64_t segment = segment_count(bytes / limits.segments_per_chain, key.type, limits);
  Transfers transfers(segment);
  for_each_range(key.count, segment, [&](const Range& piece) {
    if (at > 0) transfers.receive(chain.ranks[at - 1], piece);
    if (at + 1 < chain.ranks.size()) transfers.send(chain.ranks[at + 1], piece);
  });
  return transfers;
}

Transfers tree_broadcast(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const Order order(key, self);
  const uint64_t segment = segment_count(limits.segment_bytes_max, key.type, limits);
  Transfers transfers(segment);
  for_each_range(key.count, segment, [&](const Range& piece) {
    if (order.is_first_of_host()) pass_on(order.among_hosts(), piece, transfers);
    pass_on(order.own_host(), piece, transfers);
  });
  return transfers;
}

}  // namespace r2ccl
