#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "plan/forest.h"

namespace r2ccl {
namespace {

// More roots than this divide the work no better, and cost messages.
constexpr size_t kRootsMax = 128;
constexpr uint64_t kShares = 1024;
// Two hubs whose share is so small a part of an equal one cost more messages than they save.
constexpr uint64_t kLeastParts = 256;
// A chunk waits for the latency of each hop, and where a member has leaves. So several rounds are
// on their way up, and the line is full. Simulated with 16 to 64 hosts and 2 us a hop: with 3 the
// time is within 1.5 points of that without latency, with 2 and with 1 it is up to 12 and 30 points
// above.
constexpr uint64_t kRoundsAtATime = 3;
// An exchange by owners has at most so many messages to a host on their way, or those of the rounds
// above. With more, simulated with 32 hosts and one at half of its rate, messages of an early round
// wait for staging memory that later ones hold: the time grows by one point.
constexpr uint64_t kMessagesRising = 96;
// A vector of few rounds has no more of them on their way than the three above: they would be most
// of it. Simulated, 1 MB among three hosts takes 0 to 6 % longer with more.
constexpr uint64_t kPartRising = 16;

// Returns for each member a number in proportion to its optimal mean degree above one. With T the
// floor in units of the vector, that is b T - 1 for a member of rate b.
std::vector<uint64_t> degree_weights(const std::vector<uint64_t>& rates) {
  const uint64_t sum = std::accumulate(rates.begin(), rates.end(), uint64_t{0});
  const uint64_t least = *std::ranges::min_element(rates);
  const uint64_t floor = std::max(sum, 2 * (rates.size() - 1) * least);
  std::vector<uint64_t> weights;
  for (const uint64_t rate : rates) weights.push_back(rate * floor - sum * least);
  // Their sum has 32 bits at most, so that no product with shares overflows.
  const uint64_t most = *std::ranges::max_element(weights);
  const int shift = static_cast<int>(std::bit_width(most) + std::bit_width(weights.size())) - 32;
  for (uint64_t& weight : weights) weight >>= std::max(shift, 0);
  return weights;
}

// The trees of one share. Chunk i begins at member i of the ring.
class Caterpillars {
 public:
  // `order`: the leaves, then the members of the paths.
  Caterpillars(const std::vector<uint32_t>& order, uint32_t leaves)
      : leaves_(order.begin(), order.begin() + leaves),
        ring_(order.begin() + leaves, order.end()),
        roots_(std::min(ring_.size(), kRootsMax)) {
    std::ranges::sort(ring_);
  }

  size_t roots() const { return roots_; }
  size_t size() const { return ring_.size(); }

  TreeEnd chunk(size_t number, uint32_t self) const {
    const size_t start = number * size() / roots_;
    TreeEnd end;
    end.height = std::max<size_t>(size() - (leaves_.empty() ? 1 : 0), 1);
    const auto in_ring = std::ranges::find(ring_, self);
    if (in_ring == ring_.end()) {
      const auto leaf = static_cast<size_t>(std::ranges::find(leaves_, self) - leaves_.begin());
      const size_t place = place_of(start, leaf);
      end.parent = at(start + place);
      end.depth = size() - place;
      return end;
    }
    const size_t place = (static_cast<size_t>(in_ring - ring_.begin()) + size() - start) % size();
    end.depth = size() - 1 - place;
    if (end.depth > 0) end.parent = at(start + place + 1);
    if (place > 0) end.children.push_back(at(start + place - 1));
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      if (place_of(start, leaf) == place) end.children.push_back(leaves_[leaf]);
    }
    return end;
  }

 private:
  uint32_t at(size_t index) const { return ring_[index % size()]; }

  // Returns the place on the path of the member to which a leaf attaches. It is another place in
  // each chunk, because all chunks rise together: so a leaf sends one chunk after the other. It is
  // also another member in each chunk. Where twice the start would meet members twice, the second
  // half of the chunks has the members between.
  size_t place_of(size_t start, size_t leaf) const {
    const size_t spacing = size() / roots_;
    const bool meets_twice = spacing > 1 || size() % 2 == 0;
    const size_t between = 2 * start >= size() && meets_twice ? (spacing + 1) / 2 : 0;
    return (start + between + leaf * size() / leaves_.size()) % size();
  }

  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> ring_;
  const size_t roots_;
};

// Returns the shares whose mean degrees are optimal. Members of degree 1 + e are on the paths of a
// share y = q e / (p - 2), if there are q of them: so the fastest ones are, as far as they have
// equal parts. The rest of a member's degree makes it the root of stars, each of which counts p - 2
// degrees. More members on the paths have a smaller part, so the number is chosen that gives the
// paths most.
ForestShares nested_shares(const std::vector<uint64_t>& rates, const std::vector<uint32_t>& order) {
  const std::vector<uint64_t> weights = degree_weights(rates);
  const uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  if (sum == 0) return {.paths = {{0, kShares}}, .stars = {}};  // two members
  uint32_t leaves = 0;
  const auto paths = [&](uint32_t count) {
    return weights[order[count]] * (weights.size() - count);
  };
  for (uint32_t count = 1; count + 1 < weights.size(); ++count) {
    if (paths(count) > paths(leaves)) leaves = count;
  }
  const auto share_of = [&](uint64_t part) { return part * kShares * kShareWeight / sum; };
  const uint64_t on_paths = weights[order[leaves]];
  ForestShares shares{.paths = {{leaves, share_of(paths(leaves)) / kShareWeight}}, .stars = {}};
  std::vector<uint64_t> rest = weights;
  for (size_t at = leaves; at < rest.size(); ++at) rest[order[at]] -= on_paths;
  for (uint32_t member = 0; member < rest.size(); ++member) {
    if (share_of(rest[member]) > 0)
      shares.stars.push_back({member, member, share_of(rest[member])});
  }
  return shares;
}

// Returns a star around `root`, in which the member `hub` stands between the root and all others if
// it is another one.
TreeEnd star(uint32_t root, uint32_t hub, uint32_t self, uint32_t size) {
  TreeEnd end;
  end.height = hub == root ? 1 : 2;
  if (self != root) {
    end.parent = self == hub ? root : hub;
    end.depth = self == hub ? 1 : end.height;
  }
  if (self == root && hub != root) end.children.push_back(hub);
  if (self != hub) return end;
  // Each hub begins at another member.
  for (uint32_t other = 1; other < size; ++other) {
    const uint32_t child = (hub + other) % size;
    if (child != root) end.children.push_back(child);
  }
  return end;
}

// Returns for each member its share of a work that each can do at these rates. Two members have a
// half each.
std::vector<uint64_t> owners_weights(const std::vector<uint64_t>& rates) {
  std::vector<uint64_t> weights = degree_weights(rates);
  const uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  for (uint64_t& weight : weights) {
    weight = sum == 0 ? 1 : weight * kShares * kShareWeight / sum;
  }
  return weights;
}

// The degrees for sending make the spreaders, and those for receiving the collectors. A member is
// both as far as it can, and the rest is matched in order.
ForestShares owners_shares(const TotalRates& rates) {
  // Usual stars are a hop shorter. They suffice where the slowest host is the limit.
  std::vector<uint64_t> both;
  for (size_t member = 0; member < rates.size(); ++member) both.push_back(rates.least_of(member));
  const bool slowest_limits = 2 * (both.size() - 1) * *std::ranges::min_element(both) <=
                              std::accumulate(both.begin(), both.end(), uint64_t{0});
  std::vector<uint64_t> spreads = owners_weights(slowest_limits ? both : rates.send);
  std::vector<uint64_t> collects = owners_weights(slowest_limits ? both : rates.receive);
  ForestShares shares;
  const uint64_t least = kShares * kShareWeight / rates.size() / kLeastParts;
  const auto match = [&](uint32_t collector, uint32_t spreader) {
    const uint64_t share = std::min(collects[collector], spreads[spreader]);
    const bool pays = share > (collector == spreader ? 0 : least);
    if (pays) shares.stars.push_back({collector, spreader, share});
    collects[collector] -= share;
    spreads[spreader] -= share;
  };
  const auto size = static_cast<uint32_t>(rates.size());
  for (uint32_t member = 0; member < size; ++member) match(member, member);
  for (uint32_t collector = 0, spreader = 0; collector < size && spreader < size;) {
    match(collector, spreader);
    const bool has_all = collects[collector] == 0;
    ++(has_all ? collector : spreader);
  }
  return shares;
}

// R2CCL-AllReduce gives the ring of all the share that the slowest member has of a whole one, and
// repeats that among the others.
std::vector<PathShare> split_shares(const std::vector<uint64_t>& rates, size_t levels) {
  const uint64_t most = rates.back();
  const auto part = [&](uint64_t difference) { return difference * kShares / most; };
  std::vector<PathShare> shares{{.leaves = 0, .share = std::max<uint64_t>(part(rates[0]), 1)}};
  for (uint32_t leaves = 1; leaves < levels; ++leaves) {
    const uint64_t next = leaves + 1 == levels ? most : rates[leaves];
    const uint64_t share = part(next - rates[leaves - 1]);
    if (share > 0) shares.push_back({leaves, share});
  }
  return shares;
}

}  // namespace

uint64_t rounds_rising(size_t path) {
  const size_t roots = std::min(path, kRootsMax);
  return kRoundsAtATime * ((path + roots - 1) / roots);
}

uint64_t rounds_of_exchange(size_t members, uint64_t bytes, uint64_t rounds,
                            const PlanLimits& limits) {
  const uint64_t most = std::min(kMessagesRising / members, rounds / kPartRising);
  const uint64_t wanted = limits.bytes_rising / std::max<uint64_t>(bytes / rounds, 1);
  return std::max(kRoundsAtATime, std::min(wanted, most));
}

std::vector<uint32_t> slowest_first(const TotalRates& rates) {
  std::vector<uint32_t> order(rates.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](uint32_t a, uint32_t b) { return rates.least_of(a) < rates.least_of(b); });
  return order;
}

ForestShares forest_shares(const TotalRates& rates, Algorithm algorithm) {
  const std::vector<uint32_t> order = slowest_first(rates);
  std::vector<uint64_t> least;
  for (size_t member = 0; member < rates.size(); ++member) least.push_back(rates.least_of(member));
  std::vector<uint64_t> ascending;
  for (const uint32_t member : order) ascending.push_back(least[member]);
  switch (algorithm) {
    case Algorithm::nested:
      return nested_shares(least, order);
    case Algorithm::split:
      return {split_shares(ascending, std::min<size_t>(2, ascending.size() - 1)), {}};
    case Algorithm::recursive_split:
      return {split_shares(ascending, ascending.size() - 1), {}};
    case Algorithm::leaf:
      return {{{.leaves = 1, .share = kShares}}, {}};
    default:
      R2CCL_CHECK(algorithm == Algorithm::direct || algorithm == Algorithm::packed);
      return owners_shares(rates);
  }
}

Forest make_forest(const TotalRates& rates, const ForestShares& shares, uint32_t self) {
  Forest forest;
  forest.rounds_rising = kRoundsAtATime;
  for (const PathShare& share : shares.paths) {
    const Caterpillars trees(slowest_first(rates), share.leaves);
    for (size_t number = 0; number < trees.roots(); ++number) {
      const TreeEnd end = trees.chunk(number, self);
      forest.chunks.push_back({end, end, share.share * kShareWeight / trees.roots()});
    }
    forest.rounds_rising = std::max(forest.rounds_rising, rounds_rising(trees.size()));
  }
  const auto size = static_cast<uint32_t>(rates.size());
  for (const StarShare& each : shares.stars) {
    forest.chunks.push_back({star(each.collector, each.collector, self, size),
                             star(each.collector, each.spreader, self, size), each.share});
  }
  forest.chunks_of_round = forest.chunks.size();
  return forest;
}

}  // namespace r2ccl
