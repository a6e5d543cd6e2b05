#include "runtime/collective/cost_patterns.h"

#include <algorithm>
#include <set>

namespace r2ccl {
namespace {

constexpr size_t kFanRanks = 4;
constexpr size_t kSmallBytes = 8;
// Rounds of a batch.
constexpr int kSmallRounds = 16;
constexpr int kLargeRounds = 4;
constexpr int kNetworkRounds = 2;  // of many bytes
// In shared memory the windows of paths grow meanwhile, and the pages of rings are new.
constexpr int kFirstLargeRounds = 8;
constexpr size_t kMemoryBytes = kPatternBytesMax;
constexpr size_t kNetworkBytes = kPatternBytesMax;  // of all ranks of a host together
constexpr size_t kStarBytes = 1024 * 1024;          // of all messages of a star
constexpr size_t kBytesMin = 4 * 1024;

// The ranks that take part: the first of each of the first hosts. And the place of a rank among
// them.
class Layout {
 public:
  Layout(const HostGroups& groups, size_t ranks, Rank self) : hosts_(groups.hosts()) {
    for (size_t rank = 0; groups.empty() && rank < ranks; ++rank) {
      hosts_.push_back({Rank(static_cast<int32_t>(rank))});
    }
    hosts_.resize(std::min(hosts_.size(), kMeasuredMax));
    smallest_ = ranks;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      std::vector<Rank>& there = hosts_[host];
      there.resize(std::min(there.size(), kMeasuredMax));
      smallest_ = std::min(smallest_, there.size());
      const auto found = std::ranges::find(there, self);
      if (found == there.end()) continue;
      takes_part_ = true;
      host_ = host;
      position_ = static_cast<size_t>(found - there.begin());
    }
  }

  bool takes_part() const { return takes_part_; }
  size_t hosts() const { return hosts_.size(); }
  size_t smallest() const { return smallest_; }
  size_t position() const { return position_; }
  const std::vector<Rank>& own() const { return hosts_[host_]; }

  // Each rank sends to the next `width` ranks of its host.
  PatternPart within(size_t width, size_t bytes) const {
    PatternPart part = part_within(bytes);
    const size_t size = own().size();
    for (size_t i = 1; i <= width; ++i) {
      part.to.push_back(own()[(position_ + i) % size]);
      part.from.push_back(own()[(position_ + size - i) % size]);
    }
    return part;
  }

  // The first `ranks` ranks of each host send to `width` ranks of others: first to the rank at
  // their own position on each other host, then to the one after it.
  PatternPart between(size_t width, size_t ranks, size_t bytes) const {
    PatternPart part = part_between(bytes);
    if (position_ >= ranks) return part;
    for (size_t i = 0; i < width; ++i) {
      const size_t hosts = 1 + i % (hosts_.size() - 1);
      const size_t places = i / (hosts_.size() - 1) % ranks;
      part.to.push_back(hosts_[(host_ + hosts) % hosts_.size()][(position_ + places) % ranks]);
      part.from.push_back(hosts_[(host_ + hosts_.size() - hosts) % hosts_.size()]
                                [(position_ + ranks - places) % ranks]);
    }
    return part;
  }

  // The leader sends to each other rank of its host, and they answer.
  PatternPart to_and_fro(size_t bytes) const {
    PatternPart part = part_within(bytes);
    part.answers = position_ > 0;
    if (position_ > 0) {
      part.to = {own()[0]};
    } else {
      part.to = {own().begin() + 1, own().end()};
    }
    part.from = part.to;
    return part;
  }

 private:
  // After as many rounds as there are ranks in a ring, the lateness of each at the start has
  // reached all.
  PatternPart part_within(size_t bytes) const {
    PatternPart part;
    part.bytes = bytes;
    const bool small = bytes == kSmallBytes;
    part.first_rounds = small ? static_cast<int>(own().size()) : kFirstLargeRounds;
    part.rounds = small ? kSmallRounds : kLargeRounds;
    return part;
  }
  PatternPart part_between(size_t bytes) const {
    PatternPart part;
    part.bytes = bytes;
    const bool small = bytes == kSmallBytes;
    part.first_rounds = small ? static_cast<int>(hosts_.size()) : 1;
    part.rounds = small ? kSmallRounds : kNetworkRounds;
    return part;
  }

  std::vector<std::vector<Rank>> hosts_;
  bool takes_part_ = false;
  size_t host_ = 0;
  size_t position_ = 0;
  size_t smallest_ = 0;
};

size_t fan_within(size_t ranks) {
  return std::min(ranks - 1, kFanRanks);
}
size_t fan_between(size_t hosts, size_t ranks) {
  return std::min((hosts - 1) * ranks, kFanRanks);
}
size_t star_bytes(size_t ranks) {
  return std::clamp(kStarBytes / (ranks - 1), kBytesMin, kMemoryBytes);
}
size_t network_bytes(size_t ranks) {
  return std::max(kNetworkBytes / ranks, kBytesMin);
}

uint64_t excess(uint64_t longer, uint64_t shorter) {
  return longer > shorter ? longer - shorter : 0;
}

// Returns the time of one message more, of `messages` that take `more` longer together. No message
// costs nothing, however the clock has read.
uint64_t per_message(uint64_t more, size_t messages, uint64_t hop) {
  return std::max(messages == 0 ? hop / 4 : more / messages, hop / 64 + 1);
}
// In ps. No measurement takes hours.
uint64_t per_kib(uint64_t more, size_t bytes) {
  constexpr uint64_t kMoreMax = uint64_t{1} << 43;
  return std::max<uint64_t>(std::min(more, kMoreMax) * 1000 * 1024 / bytes, 1);
}

// Returns the costs where `ranks` ranks of a host act, as those follow from the costs of fewer.
// They share its memory and NICs, and they take turns on its cores once they outnumber these.
DomainCosts of_ranks(size_t ranks, size_t cores, DomainCosts costs) {
  const size_t measured = std::min(ranks, kMeasuredMax);
  const size_t at_once = std::max(measured, std::min(ranks, cores));
  for (uint64_t* cost : {&costs.kib_ps, &costs.fan_kib_ps}) *cost = *cost * ranks / measured;
  for (uint64_t* cost : {&costs.hop_ns, &costs.message_ns}) *cost = *cost * ranks / at_once;
  return costs;
}

bool is_within(CostPattern pattern) {
  switch (pattern) {
    case CostPattern::shift:
    case CostPattern::fan:
    case CostPattern::star:
    case CostPattern::large_shift:
    case CostPattern::large_star:
    case CostPattern::large_fan:
      return true;
    default:
      return false;
  }
}

class Solver {
 public:
  explicit Solver(const PatternTimes& times) : times_(times) {}

  DomainCosts memory(size_t ranks) const {
    const uint64_t hop = time(CostPattern::shift);
    // The way to the leader, or back, is a hop and more messages, which are not told apart.
    const uint64_t leader_hop = time(CostPattern::star) / 2 / (ranks - 1);
    const uint64_t fan = excess(time(CostPattern::fan), hop);
    const uint64_t bytes = excess(time(CostPattern::large_shift), hop);
    const uint64_t fan_of_bytes = excess(time(CostPattern::large_fan), time(CostPattern::fan));
    const uint64_t star_of_bytes =
        excess(time(CostPattern::large_star), time(CostPattern::star)) / 2;
    return {.hop_ns = hop,
            .message_ns = per_message(fan, fan_within(ranks) - 1, hop),
            .kib_ps = per_kib(bytes, kMemoryBytes),
            .fan_kib_ps = per_kib(fan_of_bytes, kMemoryBytes),
            .leader_hop_ns = leader_hop,
            .leader_message_ns = leader_hop,
            .leader_kib_ps = per_kib(star_of_bytes, star_bytes(ranks) * (ranks - 1))};
  }

  DomainCosts network(size_t hosts, size_t ranks) const {
    const uint64_t hop = time(CostPattern::net_shift);
    const uint64_t leader_hop = time(CostPattern::leader_shift);
    const uint64_t fan = excess(time(CostPattern::net_fan), hop);
    const uint64_t leader_fan = excess(time(CostPattern::leader_fan), leader_hop);
    const uint64_t bytes = excess(time(CostPattern::large_net_shift), hop);
    const uint64_t fan_of_bytes =
        excess(time(CostPattern::large_net_fan), time(CostPattern::net_fan));
    const uint64_t leader_bytes = excess(time(CostPattern::large_leader_shift), leader_hop);
    return {.hop_ns = hop,
            .message_ns = per_message(fan, fan_between(hosts, ranks) - 1, hop),
            .kib_ps = per_kib(bytes, network_bytes(ranks)),
            .fan_kib_ps = per_kib(fan_of_bytes, network_bytes(ranks)),
            .leader_hop_ns = leader_hop,
            .leader_message_ns = per_message(leader_fan, fan_between(hosts, 1) - 1, leader_hop),
            .leader_kib_ps = per_kib(leader_bytes, kNetworkBytes)};
  }

 private:
  uint64_t time(CostPattern pattern) const { return times_[static_cast<size_t>(pattern)]; }

  const PatternTimes& times_;
};

}  // namespace

PatternPart part_in(CostPattern pattern, const HostGroups& hosts, size_t ranks, Rank self) {
  const Layout layout(hosts, ranks, self);
  if (!layout.takes_part()) return {};
  const size_t own = layout.own().size();
  const size_t each = layout.smallest();
  if (is_within(pattern) ? own == 1 : layout.hosts() == 1) return {};
  switch (pattern) {
    case CostPattern::shift:
      return layout.within(1, kSmallBytes);
    case CostPattern::fan:
      return layout.within(fan_within(own), kSmallBytes);
    case CostPattern::star:
      return layout.to_and_fro(kSmallBytes);
    case CostPattern::large_shift:
      return layout.within(1, kMemoryBytes);
    case CostPattern::large_star:
      return layout.to_and_fro(star_bytes(own));
    case CostPattern::net_shift:
      return layout.between(1, each, kSmallBytes);
    case CostPattern::net_fan:
      return layout.between(fan_between(layout.hosts(), each), each, kSmallBytes);
    case CostPattern::large_fan:
      return layout.within(fan_within(own), kMemoryBytes / fan_within(own));
    case CostPattern::large_net_fan:
      return layout.between(fan_between(layout.hosts(), each), each,
                            network_bytes(each) / fan_between(layout.hosts(), each));
    case CostPattern::large_net_shift:
      return layout.between(1, each, network_bytes(each));
    case CostPattern::leader_shift:
      return layout.between(1, 1, kSmallBytes);
    case CostPattern::leader_fan:
      return layout.between(fan_between(layout.hosts(), 1), 1, kSmallBytes);
    case CostPattern::large_leader_shift:
      return layout.between(1, 1, kNetworkBytes);
  }
  return {};
}

std::vector<Rank> measured_peers(const HostGroups& hosts, size_t ranks, Rank self) {
  std::set<Rank> peers;
  for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
    const PatternPart part = part_in(static_cast<CostPattern>(pattern), hosts, ranks, self);
    peers.insert(part.to.begin(), part.to.end());
    peers.insert(part.from.begin(), part.from.end());
  }
  return {peers.begin(), peers.end()};
}

PlanCosts costs_from(const PatternTimes& times, const HostGroups& hosts, size_t ranks,
                     size_t cores) {
  const Layout layout(hosts, ranks, Rank(0));
  const Solver solver(times);
  const size_t each = hosts.largest();
  PlanCosts costs;
  if (each > 1) {
    costs.memory = of_ranks(each, cores, solver.memory(std::min(each, kMeasuredMax)));
  }
  if (layout.hosts() > 1) {
    costs.network = of_ranks(each, cores, solver.network(layout.hosts(), layout.smallest()));
  }
  return costs;
}

}  // namespace r2ccl
