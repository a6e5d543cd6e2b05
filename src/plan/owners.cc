// Shares of owners. Each rank sends each owner the owner's elements, and each owner sends the sums
// to all ranks. Let n be the bytes of the vector, p the number of ranks, and let host h have m
// ranks, which own the share w of it together. In the first exchange the host sends m (1 - w) n
// bytes and receives (p - m) w n; in the second one it is the other way round. So in each direction
// its NICs move
//
//     (m + (p - 2 m) w) n
//
// bytes. With a bandwidth b it ends by the time T n if w = (T b - m) / (p - 2 m) or less. The
// shares are those of the least T at which they sum up to 1. A host whose own bytes alone take
// longer owns nothing. To a host with at least half of all ranks its share costs nothing; it counts
// as if it had one rank less than half.
#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/algorithms.h"
#include "plan/holdings.h"
#include "plan/host_rates.h"

namespace r2ccl {
namespace {

// The whole of a share, and the most of a host's bandwidth. No product of them overflows.
constexpr uint64_t kWhole = uint64_t{1} << 24;
constexpr uint64_t kBandwidthMax = uint64_t{1} << 12;

struct Host {
  std::vector<Rank> ranks;
  uint64_t bandwidth = kBandwidthMax;
};

std::vector<Host> hosts_of(const PlanKey& key) {
  std::vector<Host> hosts;
  for (uint32_t host = 0; host < host_count(key); ++host) {
    hosts.push_back({.ranks = ranks_of_host(key, host)});
  }
  // A host sends as much as it receives, so its slower direction is the limit.
  const TotalRates rates = total_rates(key);
  uint64_t fastest = 0;
  for (size_t host = 0; host < hosts.size(); ++host) {
    fastest = std::max(fastest, rates.least_of(host));
  }
  for (size_t host = 0; host < hosts.size(); ++host) {
    hosts[host].bandwidth = std::max<uint64_t>(rates.least_of(host) * kBandwidthMax / fastest, 1);
  }
  return hosts;
}

uint64_t share_at(uint64_t time, const Host& host, uint64_t ranks) {
  const uint64_t own = host.ranks.size();
  const uint64_t others = ranks > 2 * own ? ranks - 2 * own : 1;
  const uint64_t done = time * host.bandwidth;
  const uint64_t needed = own * kWhole;
  return done < needed ? 0 : std::min((done - needed) / others, kWhole);
}

// Returns the weight of each rank.
std::vector<uint64_t> weights_of(const PlanKey& key) {
  const auto ranks = static_cast<uint64_t>(key.rank_count);
  std::vector<uint64_t> weights(ranks, 1);
  if (key.view.empty()) return weights;
  const std::vector<Host> hosts = hosts_of(key);
  const auto sum_at = [&](uint64_t time) {
    uint64_t sum = 0;
    for (const Host& host : hosts) sum += share_at(time, host, ranks);
    return sum;
  };
  uint64_t early = 0;
  uint64_t late = 2 * kWhole * ranks;
  while (late - early > 1) {
    const uint64_t between = early + (late - early) / 2;
    (sum_at(between) < kWhole ? early : late) = between;
  }
  for (const Host& host : hosts) {
    const uint64_t share = share_at(late, host, ranks);
    for (const Rank rank : host.ranks) {
      weights[static_cast<size_t>(rank.value())] = share / host.ranks.size();
    }
  }
  return weights;
}

}  // namespace

std::vector<Range> owned_ranges(const PlanKey& key, const PlanLimits& limits) {
  std::vector<Range> ranges(static_cast<size_t>(key.rank_count));
  if (key.collective == Collective::reduce_scatter) {
    for (int32_t rank = 0; rank < key.rank_count; ++rank) {
      ranges[static_cast<size_t>(rank)] = block_of(key, Rank(rank));
    }
    return ranges;
  }
  const Range whole{0, key.count};
  // Such a message costs more than its bytes.
  const uint64_t few =
      limits.segment_bytes_min / size_of(key.type) / static_cast<uint64_t>(key.rank_count);
  if (key.count <= few && key.collective == Collective::reduce) {
    ranges[static_cast<size_t>(key.root.value())] = whole;
    return ranges;
  }
  if (key.count <= few) {
    std::ranges::fill(ranges, whole);
    return ranges;
  }
  const std::vector<uint64_t> weights = weights_of(key);
  const uint64_t all = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  uint64_t before = 0;
  for (size_t rank = 0; rank < ranges.size(); ++rank) {
    const uint64_t begin = scaled(key.count, before, all);
    before += weights[rank];
    ranges[rank] = {begin, scaled(key.count, before, all) - begin};
  }
  return ranges;
}

}  // namespace r2ccl
