#include "plan/ring_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "plan/host_rates.h"

namespace r2ccl {
namespace {

// Up to so many hosts the search is exact; it takes 2^n n^2 steps.
constexpr size_t kExactMax = 10;

class Search {
 public:
  explicit Search(const std::vector<HostRates>& hosts) : size_(hosts.size()) {
    for (const HostRates& from : hosts) {
      for (const HostRates& to : hosts) rates_.push_back(shared_rate(from, to));
    }
  }

  std::vector<uint32_t> best() const {
    std::vector<uint32_t> order(size_);
    std::iota(order.begin(), order.end(), 0);
    if (size_ < 4 || least_of(order) >= bound()) return order;
    return size_ <= kExactMax ? exact(order) : exchanged(order);
  }

 private:
  uint64_t rate(uint32_t from, uint32_t to) const { return rates_[from * size_ + to]; }

  uint64_t least_of(const std::vector<uint32_t>& order) const {
    uint64_t least = UINT64_MAX;
    for (size_t at = 0; at < size_; ++at) {
      least = std::min(least, rate(order[at], order[(at + 1) % size_]));
    }
    return least;
  }

  // Every host has a neighbour on each side, so no order is better than this.
  uint64_t bound() const {
    uint64_t bound = UINT64_MAX;
    for (uint32_t host = 0; host < size_; ++host) {
      uint64_t most_out = 0;
      uint64_t most_in = 0;
      for (uint32_t other = 0; other < size_; ++other) {
        if (other == host) continue;
        most_out = std::max(most_out, rate(host, other));
        most_in = std::max(most_in, rate(other, host));
      }
      bound = std::min({bound, most_out, most_in});
    }
    return bound;
  }

  // Dynamic programming over sets of hosts (Held, Karp 1962), with the least rate as the value.
  std::vector<uint32_t> exact(const std::vector<uint32_t>& order) const {
    const size_t sets = size_t{1} << size_;
    std::vector<uint64_t> least(sets * size_, 0);
    std::vector<uint32_t> before(sets * size_, 0);
    least[size_] = UINT64_MAX;  // the set of host 0, which is also its end
    for (size_t set = 1; set < sets; set += 2) {
      for (uint32_t end = 0; end < size_; ++end) {
        const uint64_t here = least[set * size_ + end];
        for (uint32_t next = 1; here > 0 && next < size_; ++next) {
          if ((set >> next & 1) != 0) continue;
          const size_t there = (set | size_t{1} << next) * size_ + next;
          const uint64_t reached = std::min(here, rate(end, next));
          if (reached <= least[there]) continue;
          least[there] = reached;
          before[there] = end;
        }
      }
    }
    const size_t all = sets - 1;
    const auto closed = [&](uint32_t end) {
      return std::min(least[all * size_ + end], rate(end, 0));
    };
    uint32_t end = 1;
    for (uint32_t host = 2; host < size_; ++host) {
      if (closed(host) > closed(end)) end = host;
    }
    if (closed(end) <= least_of(order)) return order;
    std::vector<uint32_t> found;
    for (size_t set = all; set != 1;) {
      found.push_back(end);
      const uint32_t previous = before[set * size_ + end];
      set &= ~(size_t{1} << end);
      end = previous;
    }
    found.push_back(0);
    std::ranges::reverse(found);
    return found;
  }

  // Reverses a part of the order while that helps the worst pair of neighbours.
  std::vector<uint32_t> exchanged(std::vector<uint32_t> order) const {
    const uint64_t enough = bound();
    for (size_t round = 0; round < 2 * size_; ++round) {
      size_t worst = 0;
      const auto edge = [&](size_t at) { return rate(order[at], order[(at + 1) % size_]); };
      for (size_t at = 1; at < size_; ++at) {
        if (edge(at) < edge(worst)) worst = at;
      }
      const uint64_t least = edge(worst);
      if (least >= enough) break;
      // A pair that is worse than both new ones stands at one end of the reversed part.
      std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>((worst + 1) % size_),
                  order.end());
      size_t best = 0;
      uint64_t gain = least;
      for (size_t at = 0; at + 1 < size_; ++at) {
        const uint64_t joined =
            std::min(rate(order[size_ - 1], order[at]), rate(order[0], order[at + 1]));
        if (joined > gain && reverses_well(order, at, least)) {
          gain = joined;
          best = at;
        }
      }
      if (gain == least) break;
      std::reverse(order.begin(), order.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    return order;
  }

  // Returns whether the first hosts up to `last` have no more pairs of at most this rate in
  // reverse.
  bool reverses_well(const std::vector<uint32_t>& order, size_t last, uint64_t bad) const {
    int64_t more = 0;
    for (size_t at = 0; at < last; ++at) {
      more += rate(order[at + 1], order[at]) <= bad ? 1 : 0;
      more -= rate(order[at], order[at + 1]) <= bad ? 1 : 0;
    }
    return more <= 0;
  }

  const size_t size_;
  std::vector<uint64_t> rates_;  // by sender and receiver
};

}  // namespace

uint64_t shared_rate(const HostRates& from, const HostRates& to) {
  uint64_t sum = 0;
  for (size_t rail = 0; rail < std::min(from.size(), to.size()); ++rail) {
    sum += std::min(from[rail].send, to[rail].receive);
  }
  return sum;
}

bool all_share_rails(const View& view) {
  if (view.empty()) return true;
  // Hosts that have lost the same rails are alike. Rails beyond the last bit share it.
  const auto bit = [](size_t rail) { return uint64_t{1} << std::min<size_t>(rail, 63); };
  std::set<std::pair<uint64_t, uint64_t>> kinds;
  for (const HostRates& host : view.hosts()) {
    std::pair<uint64_t, uint64_t> rails;
    for (size_t rail = 0; rail < host.size(); ++rail) {
      if (host[rail].send > 0) rails.first |= bit(rail);
      if (host[rail].receive > 0) rails.second |= bit(rail);
    }
    kinds.insert(rails);
  }
  return std::ranges::all_of(kinds, [&](const auto& from) {
    return std::ranges::all_of(kinds,
                               [&](const auto& to) { return (from.first & to.second) != 0; });
  });
}

bool rails_differ(const View& view) {
  if (view.empty()) return false;
  size_t rails = 0;
  for (const HostRates& host : view.hosts()) rails = std::max(rails, host.size());
  const auto is_unequal = [&](const HostRates& host) {
    return host.size() < rails ||
           std::ranges::any_of(host, [&](const NicRate& nic) { return nic != host.front(); });
  };
  return std::ranges::count_if(view.hosts(), is_unequal) > 1;
}

std::vector<uint32_t> ring_order(const View& view, size_t hosts) {
  if (!view.empty()) {
    R2CCL_CHECK(view.hosts().size() == hosts);
    return Search(view.hosts()).best();
  }
  std::vector<uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<uint32_t> ring_order(const PlanKey& key) {
  return ring_order(key.view, host_count(key));
}

std::vector<Rank> ranks_in_ring_order(const PlanKey& key) {
  std::vector<Rank> order;
  for (const uint32_t host : ring_order(key)) {
    const std::vector<Rank> ranks = ranks_of_host(key, host);
    order.insert(order.end(), ranks.begin(), ranks.end());
  }
  return order;
}

}  // namespace r2ccl
