#include "plan/cost_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"
#include "plan/algorithms.h"
#include "plan/forest.h"
#include "plan/holdings.h"
#include "plan/ring_order.h"

namespace r2ccl {
namespace {

// Calls of more bytes have the same plan as one of so many.
constexpr uint64_t kBytesCounted = uint64_t{1} << 30;

uint64_t log2_floor(uint64_t n) {
  return static_cast<uint64_t>(std::bit_width(n)) - 1;
}
uint64_t log2_ceil(uint64_t n) {
  return n < 2 ? 0 : static_cast<uint64_t>(std::bit_width(n - 1));
}
uint64_t without_one(uint64_t n) {
  return n > 0 ? n - 1 : 0;
}
// The bound at the slowest host is 32 times that at the fastest.
constexpr uint64_t kSlowKibPsMax = kKibPsMax << 5;

// Returns the time in ns. The bytes have up to 33 binary digits, and the cost as many as
// kSlowKibPsMax.
uint64_t time_of(uint64_t bytes, uint64_t kib_ps) {
  return (bytes / 1024 * kib_ps + bytes % 1024 * kib_ps / 1024) / 1000;
}
uint64_t pieces_of(uint64_t bytes, uint64_t segment) {
  return std::max<uint64_t>((bytes + segment - 1) / segment, 1);
}

// The costs of ranks that act together: those of a domain, or those of one rank of each host.
struct Costs {
  uint64_t hop;
  uint64_t message;
  uint64_t kib;  // in ps, unlike the others
};
Costs costs_of_all(const DomainCosts& domain) {
  return {domain.hop_ns, domain.message_ns, domain.kib_ps};
}
// The costs of `leaders` of the `ranks` of each host. They share the NICs and cores that all
// ranks share when all act, and none is faster than a leader alone.
Costs costs_of_leaders(const DomainCosts& domain, uint64_t leaders, uint64_t ranks) {
  return {domain.leader_hop_ns, domain.leader_message_ns,
          std::max(domain.leader_kib_ps, domain.kib_ps * leaders / ranks)};
}

// The time of `steps` steps of a ring in which each rank passes on a block. ring.cc has the
// arithmetic: a block in several pieces hides the latency of a hop behind the others.
uint64_t ring_ns(uint64_t steps, uint64_t block, const Costs& costs, const PlanLimits& limits) {
  const uint64_t segment = std::clamp(block / limits.segments_per_block, limits.segment_bytes_min,
                                      limits.segment_bytes_max);
  const uint64_t pieces = pieces_of(block, segment);
  const uint64_t step = time_of(block, costs.kib) + (pieces - 1) * costs.message;
  return steps * std::max(step, step / pieces + costs.hop) + costs.hop;
}

uint64_t recursive_doubling_ns(uint64_t bytes, uint64_t ranks, const Costs& costs,
                               const PlanLimits& limits) {
  const uint64_t rounds = log2_floor(ranks) + (std::has_single_bit(ranks) ? 0 : 2);
  const uint64_t pieces = pieces_of(bytes, limits.segment_bytes_max);
  // A send that the link does not copy is complete when its acknowledgement is back.
  const uint64_t hops = bytes > limits::kBufferedSendBytesMax ? 2 : 1;
  return rounds * (hops * costs.hop + (pieces - 1) * costs.message + time_of(bytes, costs.kib));
}

uint64_t halving_doubling_ns(uint64_t bytes, uint64_t ranks, const Costs& costs,
                             const PlanLimits& limits) {
  const uint64_t core = std::bit_floor(ranks);
  const uint64_t rounds = 2 * log2_floor(ranks);
  const uint64_t pieces = pieces_of(bytes, limits.segment_bytes_max);
  const uint64_t all = time_of(bytes, costs.kib) + (pieces - 1) * costs.message;
  const uint64_t line = 2 * (all - all / core);
  // Rounds of several parts overlap: bytes that wait for a hop are behind others on the line.
  const bool overlaps = bytes >= core * limits.segment_bytes_min;
  const uint64_t within = overlaps ? std::max(line + 2 * costs.hop, rounds * costs.hop + all)
                                   : rounds * costs.hop + line;
  return within + (core == ranks ? 0 : 2 * (costs.hop + all));
}

uint64_t reduction_ns(Algorithm algorithm, uint64_t bytes, uint64_t ranks, const Costs& costs,
                      const PlanLimits& limits) {
  switch (algorithm) {
    case Algorithm::ring:
      return ring_ns(2 * (ranks - 1), bytes / ranks, costs, limits);
    case Algorithm::halving_doubling:
      return halving_doubling_ns(bytes, ranks, costs, limits);
    case Algorithm::recursive_doubling:
      return recursive_doubling_ns(bytes, ranks, costs, limits);
    default:
      break;
  }
  R2CCL_CHECK(false);
  return 0;
}

// The hosts of a degraded network, whose fastest has the measured costs.
struct Slowdown {
  explicit Slowdown(const PlanKey& key) : view(key.view), rates(total_rates(key)) {}

  View view;
  TotalRates rates;

  uint64_t most() const {
    return std::max(*std::ranges::max_element(rates.send),
                    *std::ranges::max_element(rates.receive));
  }
  uint64_t least() const {
    return std::min(*std::ranges::min_element(rates.send),
                    *std::ranges::min_element(rates.receive));
  }
  // Returns the costs where every host has as much to do as the slowest one.
  Costs of_all(Costs costs) const {
    costs.kib = slowed(costs.kib);
    return costs;
  }
  DomainCosts of_all(DomainCosts costs) const {
    for (uint64_t* kib : {&costs.kib_ps, &costs.fan_kib_ps, &costs.leader_kib_ps}) {
      *kib = slowed(*kib);
    }
    return costs;
  }

 private:
  uint64_t slowed(uint64_t kib) const { return std::min(kib * most() / least(), kSlowKibPsMax); }
};

// Returns whether `packed` may serve: two hosts have lost some of their rails, not of all alike.
bool packs(const View& view) {
  return rails_differ(view) && view.hosts().size() <= kPackedHostsMax &&
         packing_for(view, Algorithm::packed) != nullptr;
}

// Returns whether an automatic choice considers the forest. Equal hosts have none. The times of
// forests that know only totals are too good where rails differ; that of `direct` is known there.
bool suits(Algorithm forest, const View& view) {
  if (view.empty()) return false;
  if (forest == Algorithm::packed) return packs(view);
  return all_share_rails(view) && (forest == Algorithm::direct || !packs(view));
}

// Returns the time of the bytes that the busiest host moves along a forest, in units of 1/1024 of
// the vector's time at the fastest host.
uint64_t forest_load(Algorithm algorithm, const Slowdown& slow) {
  const uint64_t members = slow.rates.size();
  const std::vector<uint32_t> order = slowest_first(slow.rates);
  const auto by_degrees = [&](const std::vector<uint64_t>& rates) {
    const uint64_t least = *std::ranges::min_element(rates);
    const uint64_t all = std::accumulate(rates.begin(), rates.end(), uint64_t{0});
    return 1024 * slow.most() * std::max(2 * (members - 1) * least, all) / (all * least);
  };
  if (algorithm == Algorithm::direct && packs(slow.view)) {
    return direct_rail_load(slow.view, slow.rates);
  }
  if (algorithm == Algorithm::direct) {
    return std::max(by_degrees(slow.rates.send), by_degrees(slow.rates.receive));
  }
  if (algorithm == Algorithm::nested) {
    std::vector<uint64_t> least;
    for (uint32_t member = 0; member < members; ++member) {
      least.push_back(slow.rates.least_of(member));
    }
    return by_degrees(least);
  }
  const std::vector<PathShare> shares = forest_shares(slow.rates, algorithm).paths;
  uint64_t all = 0;
  for (const PathShare& share : shares) all += share.share;
  uint64_t busiest = 0;
  for (uint32_t i = 0; i < members; ++i) {
    uint64_t load = 0;
    for (const PathShare& share : shares) {
      const uint64_t path = members - share.leaves;
      load += share.share * 1024 * (i < share.leaves ? path : 2 * (path - 1) + share.leaves) / path;
    }
    busiest = std::max(busiest, load / all * slow.most() / slow.rates.least_of(order[i]));
  }
  return busiest;
}

// Returns the hops of a chunk along a forest.
uint64_t forest_hops(Algorithm algorithm, const Slowdown& slow) {
  if (algorithm != Algorithm::direct) return 2 * (slow.rates.size() - 1);
  return slow.rates.send == slow.rates.receive ? 2 : 3;
}

uint64_t forest_ns(Algorithm algorithm, uint64_t bytes, const Slowdown& slow, const Costs& costs,
                   const PlanLimits& limits) {
  const uint64_t members = slow.rates.size();
  // A round has about one chunk for each member, and each member has each chunk twice.
  const uint64_t segment = std::clamp(bytes / members / limits.rounds_per_forest,
                                      limits.segment_bytes_min, limits.segment_bytes_max);
  const uint64_t rounds = pieces_of(bytes / members, segment);
  const auto packing = packing_for(slow.view, algorithm);
  if (packing == nullptr && algorithm == Algorithm::packed) algorithm = Algorithm::direct;
  const uint64_t hops = packing == nullptr ? forest_hops(algorithm, slow) : packing->hops;
  const uint64_t busiest = packing == nullptr ? forest_load(algorithm, slow) : packing->load;
  constexpr uint64_t kLoadMax = 1 << 28;  // so that the product does not overflow
  const uint64_t kib = costs.kib * std::min(busiest, kLoadMax) / 1024;
  const uint64_t load = time_of(bytes, std::min(kib, kSlowKibPsMax));
  // As many rounds as rise and come down at a time share the time of the hops.
  const uint64_t way = hops * (costs.hop + time_of(segment, costs.kib));
  const bool has_paths = hops >= 2 * (members - 1);
  const uint64_t at_a_time =
      2 * (has_paths ? rounds_rising(members) : rounds_of_exchange(members, bytes, rounds, limits));
  // The paths fill in the first round and drain in the last one. Packed trees have more hops, and
  // each costs half a round.
  const uint64_t fill = load / rounds * (packing == nullptr ? 2 : hops) / 2;
  return std::max(load, rounds * way / at_a_time) + fill + hops * costs.hop +
         2 * rounds * members * costs.message;
}

// Returns the time among hosts of which a ring has these costs.
uint64_t reduction_among_hosts_ns(const PlanKey& key, Algorithm algorithm, uint64_t bytes,
                                  const Slowdown& slow, const Costs& costs,
                                  const PlanLimits& limits) {
  if (!uses_forest(algorithm)) {
    return reduction_ns(algorithm, bytes, slow.rates.size(), slow.of_all(costs), limits);
  }
  return forest_ns(algorithm, bytes, slow, costs, forest_limits(key, limits));
}

// The first one is for hosts of several ranks; each of the others also reduces among hosts.
constexpr std::array kReductions{Algorithm::hierarchical,
                                 Algorithm::recursive_doubling,
                                 Algorithm::halving_doubling,
                                 Algorithm::ring,
                                 Algorithm::direct,
                                 Algorithm::nested,
                                 Algorithm::recursive_split,
                                 Algorithm::split,
                                 Algorithm::leaf,
                                 Algorithm::packed};
constexpr std::span kReductionsAmongHosts = std::span(kReductions).subspan<1>();

// The facts of a call that its time depends on.
class Prediction {
 public:
  Prediction(const PlanKey& key, const PlanLimits& limits)
      : key_(key),
        limits_(limits),
        ranks_(static_cast<uint64_t>(key.rank_count)),
        hosts_(key.hosts.empty() ? ranks_ : key.hosts.hosts().size()),
        each_(key.hosts.empty() ? 1 : key.hosts.largest()),
        bytes_(bytes_of(key)),
        memory_(key.costs.memory),
        slow_(key),
        network_(slow_.of_all(key.costs.network)),
        flat_(costs_of_all(hosts_ == 1 ? memory_ : network_)) {}

  uint64_t all_reduce(Algorithm algorithm) const {
    if (algorithm == Algorithm::hierarchical) {
      return hierarchical_reduction(reduction_among_leaders(key_, limits_));
    }
    if (uses_forest(algorithm)) {
      return key_.hosts.empty()
                 ? reduction_among_hosts_ns(key_, algorithm, bytes_, slow_,
                                            costs_of_all(key_.costs.network), limits_)
                 : hierarchical_reduction(algorithm);
    }
    if (algorithm != Algorithm::ring) {
      return reduction_ns(algorithm, bytes_, ranks_, flat_, limits_);
    }
    return ring_ns(2 * (ranks_ - 1), bytes_ / ranks_, ring_costs(), limits_);
  }

  uint64_t broadcast(Algorithm algorithm) const {
    return algorithm == Algorithm::ring ? chain() : tree();
  }

  uint64_t gather(Algorithm algorithm) const {
    const uint64_t others = bytes_ - bytes_ / ranks_;
    switch (algorithm) {
      case Algorithm::recursive_doubling:
        // A run of blocks that wraps around is two messages.
        return log2_ceil(ranks_) * (flat_.hop + flat_.message) + time_of(others, flat_.kib) +
               copies();
      case Algorithm::direct:
        return direct();
      case Algorithm::hierarchical:
        return hierarchical_gather();
      default:
        return ring_ns(ranks_ - 1, bytes_ / ranks_, ring_costs(), limits_);
    }
  }

 private:
  static uint64_t bytes_of(const PlanKey& key) {
    return std::min(vector_count(key), kBytesCounted) * size_of(key.type);
  }

  // Senders meet at a receiver as they happen to be late, so the time is less certain than that of
  // a ring. A ring is better where the two differ by less than the error of the costs.
  uint64_t direct() const {
    const uint64_t bytes = time_of(bytes_ - bytes_ / ranks_, fan_kib());
    return flat_.hop + without_one(ranks_ - 1) * flat_.message + bytes + bytes / 8;
  }

  uint64_t fan_kib() const {
    const DomainCosts& flat = hosts_ == 1 ? memory_ : network_;
    return ranks_ > 2 ? std::max(flat.fan_kib_ps, flat.kib_ps) : flat.kib_ps;
  }

  // In a ring one rank of each host sends to the next host, and the others to a rank of their own.
  Costs ring_costs() const {
    if (hosts_ == 1 || each_ == 1) return flat_;
    const uint64_t kib = std::max(network_.leader_kib_ps, memory_.kib_ps);
    return {flat_.hop, flat_.message, kib};
  }

  // Between a leader and all other ranks of its host: `bytes` to or from each.
  uint64_t star(uint64_t bytes, uint64_t leaders) const {
    if (each_ < 2) return 0;
    const Costs costs = costs_of_leaders(memory_, leaders, each_);
    const uint64_t messages = (each_ - 1) * pieces_of(bytes, limits_.segment_bytes_max);
    return costs.hop + (messages - 1) * costs.message + (each_ - 1) * time_of(bytes, costs.kib);
  }

  uint64_t hierarchical_reduction(Algorithm algorithm) const {
    const uint64_t columns = column_count(key_, limits_);
    const uint64_t bytes = bytes_ / columns;
    const uint64_t within = 2 * star(bytes, columns);
    if (hosts_ == 1) return within;
    const Costs leaders = costs_of_leaders(key_.costs.network, columns, each_);
    const uint64_t between =
        reduction_among_hosts_ns(key_, algorithm, bytes, slow_, leaders, limits_);
    if (algorithm != Algorithm::ring && !uses_forest(algorithm)) return within + between;
    // Piece by piece: the first and the last piece are alone.
    const uint64_t alone = within / hosts_ / limits_.segments_per_block;
    return std::max(within, between) + alone;
  }

  uint64_t hierarchical_gather() const {
    const Costs leaders = costs_of_leaders(network_, 1, each_);
    const uint64_t between = log2_ceil(hosts_) * (leaders.hop + leaders.message) +
                             time_of(bytes_ - bytes_ / hosts_, leaders.kib);
    return star(bytes_ / ranks_, 1) + between + star(bytes_, 1) + copies();
  }

  // Partial results of the whole vector lie in memory of their own.
  uint64_t copies() const {
    return key_.collective == Collective::reduce_scatter ? time_of(bytes_, memory_.leader_kib_ps)
                                                         : 0;
  }

  // On each level the root is the limit: it sends all bytes log2 times.
  uint64_t tree() const {
    const uint64_t pieces = pieces_of(bytes_, limits_.segment_bytes_max);
    const auto level = [&](uint64_t ranks, const Costs& costs) {
      return log2_ceil(ranks) *
             (costs.hop + (pieces - 1) * costs.message + time_of(bytes_, costs.kib));
    };
    const Costs within = costs_of_leaders(memory_, (each_ + 1) / 2, each_);
    const uint64_t between = level(hosts_, costs_of_leaders(network_, 1, each_));
    // Where ranks share cores, the copies to all ranks are the limit, one after the other.
    return between + (each_ == 1 ? 0 : std::min(level(each_, within), star(bytes_, 1)));
  }

  uint64_t chain() const {
    const uint64_t segment = std::clamp(bytes_ / limits_.segments_per_chain,
                                        limits_.segment_bytes_min, limits_.segment_bytes_max);
    const uint64_t first = std::min(bytes_, segment);
    const uint64_t pieces = pieces_of(bytes_, segment);
    const Costs between = costs_of_leaders(network_, 1, each_);
    const Costs within = costs_of_all(memory_);
    const auto fill = [&](uint64_t hops, const Costs& costs) {
      return hops * (costs.hop + time_of(first, costs.kib));
    };
    const auto rest = [&](const Costs& costs) {
      return (pieces - 1) * costs.message + time_of(bytes_ - first, costs.kib);
    };
    return fill(hosts_ - 1, between) + fill(ranks_ - hosts_, within) +
           std::max(hosts_ > 1 ? rest(between) : 0, each_ > 1 ? rest(within) : 0);
  }

  const PlanKey& key_;
  const PlanLimits& limits_;
  const uint64_t ranks_;
  const uint64_t hosts_;
  const uint64_t each_;  // ranks of the largest host
  const uint64_t bytes_;
  const DomainCosts& memory_;
  const Slowdown slow_;
  const DomainCosts network_;  // of the slowest host
  const Costs flat_;           // where all ranks act alike
};

}  // namespace

Algorithm reduction_among_leaders(const PlanKey& key, const PlanLimits& limits) {
  const uint64_t columns = column_count(key, limits);
  const uint64_t bytes = std::min(key.count / columns, kBytesCounted) * size_of(key.type);
  const Costs costs = costs_of_leaders(key.costs.network, columns, key.hosts.largest());
  Algorithm best = Algorithm::recursive_doubling;
  if (key.hosts.hosts().size() < 2) return best;
  if (uses_forest(key.algorithm)) return key.algorithm;
  const Slowdown slow(key);
  const bool any_may_meet = all_share_rails(key.view);
  uint64_t least = UINT64_MAX;
  for (const Algorithm each : kReductionsAmongHosts) {
    if (uses_forest(each) ? !suits(each, key.view) : each != Algorithm::ring && !any_may_meet) {
      continue;
    }
    const uint64_t time = reduction_among_hosts_ns(key, each, bytes, slow, costs, limits);
    if (time < least) best = each;
    least = std::min(least, time);
  }
  return best;
}

std::span<const Algorithm> algorithms_of(const PlanKey& key, const PlanLimits& limits) {
  // A call that cannot have the first ones has the rest.
  static constexpr std::array kBroadcasts{Algorithm::halving_doubling, Algorithm::ring};
  static constexpr std::array kGathers{Algorithm::hierarchical, Algorithm::recursive_doubling,
                                       Algorithm::direct, Algorithm::ring};
  static constexpr std::array kOthers{Algorithm::direct};
  const size_t flat = key.hosts.empty() ? 1 : 0;
  switch (key.collective) {
    case Collective::all_reduce:
      return std::span(kReductions).subspan(flat);
    case Collective::broadcast:
    case Collective::reduce:
      return kBroadcasts;
    case Collective::all_gather:
    case Collective::reduce_scatter: {
      // The first two have the whole vector of a ReduceScatter in scratch memory, or in wide
      // memory.
      const bool fits = vector_count(key) * size_of(key.type) <= limits.spare_scratch_bytes &&
                        (!reduces_wide(key) || vector_count(key) <= wide_count(limits));
      const bool has_all = fits && key.blocks.counts.empty();
      return std::span(kGathers).subspan(has_all ? flat : 2);
    }
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
    case Collective::barrier:
      break;
  }
  return kOthers;
}

std::vector<Algorithm> candidates_of(const PlanKey& key, const PlanLimits& limits) {
  std::vector<Algorithm> candidates;
  const std::span<const Algorithm> algorithms = algorithms_of(key, limits);
  const bool any_may_meet = algorithms.size() < 2 || all_share_rails(key.view);
  const bool reduces_all = key.collective == Collective::all_reduce;
  for (const Algorithm each : algorithms) {
    const bool goes_around =
        each == Algorithm::ring || (each == Algorithm::hierarchical && reduces_all);
    const bool is_forest = reduces_all && uses_forest(each);
    if (is_forest ? suits(each, key.view) : any_may_meet || goes_around) {
      candidates.push_back(each);
    }
  }
  return candidates;
}

uint64_t predicted_ns(const PlanKey& key, Algorithm algorithm, const PlanLimits& limits) {
  const Prediction prediction(key, limits);
  switch (key.collective) {
    case Collective::all_reduce:
      return prediction.all_reduce(algorithm);
    case Collective::broadcast:
    case Collective::reduce:
      return prediction.broadcast(algorithm);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return prediction.gather(algorithm);
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
    case Collective::barrier:
      break;
  }
  return 0;  // one algorithm
}

}  // namespace r2ccl
