#include <algorithm>

#include "plan/forest.h"
#include "plan/hosts/rail_division.h"

namespace r2ccl {
namespace {

// Returns the tree in which each member has this parent, the root itself.
TreeEnd end_of(const std::vector<uint8_t>& parents, uint32_t self) {
  TreeEnd end;
  const auto depth_of = [&](uint32_t member) {
    uint64_t depth = 0;
    for (; parents[member] != member; member = parents[member]) ++depth;
    return depth;
  };
  const auto size = static_cast<uint32_t>(parents.size());
  // Each parent begins at another member.
  for (uint32_t other = 0; other < size; ++other) {
    const uint32_t member = (self + other) % size;
    end.height = std::max(end.height, depth_of(member));
    if (member != self && parents[member] == self) end.children.push_back(member);
  }
  end.depth = depth_of(self);
  if (end.depth > 0) end.parent = parents[self];
  return end;
}

}  // namespace

Forest packed_forest(const Packing& packing, size_t chunks, uint32_t self) {
  Forest forest;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const Packing::Tree& tree = packing.trees[chunk];
    forest.chunks.push_back({end_of(tree.sum_to, self), end_of(tree.result_from, self), 1});
  }
  forest.chunks_of_round = packing.trees.front().sum_to.size();
  forest.rounds_rising = rounds_rising(1);
  return forest;
}

// Returns what the hosts send to each other by `direct`, one flow for each pair.
static std::vector<RailFlow> flows_of(const std::vector<StarShare>& stars, uint32_t size) {
  std::vector<uint64_t> shares(size_t{size} * size);
  const auto add = [&](uint32_t from, uint32_t to, uint64_t share) {
    if (from != to) shares[size_t{from} * size + to] += share;
  };
  for (const StarShare& star : stars) {
    for (uint32_t host = 0; host < size; ++host) {
      add(host, star.collector, star.share);
      // The collector has each result already.
      if (host != star.collector) add(star.spreader, host, star.share);
    }
    add(star.collector, star.spreader, star.share);
  }
  std::vector<RailFlow> flows;
  for (uint32_t from = 0; from < size; ++from) {
    for (uint32_t to = 0; to < size; ++to) {
      const uint64_t share = shares[size_t{from} * size + to];
      if (share > 0) flows.push_back({from, to, share});
    }
  }
  return flows;
}

uint64_t direct_rail_load(const View& view, const TotalRates& rates) {
  // One call of a rank asks several times, as for its packing. The rates follow from the view.
  thread_local View of;
  thread_local uint64_t last = UINT64_MAX;
  if (of == view) return last;
  const std::vector<StarShare> stars = forest_shares(rates, Algorithm::direct).stars;
  uint64_t whole = 0;
  for (const StarShare& star : stars) whole += star.share;
  const RailDivision division =
      divide_over_rails(view.hosts(), flows_of(stars, static_cast<uint32_t>(rates.size())), whole);
  const bool divided = !division.parts.empty();
  last = divided ? (division.load + division.load_of_proportions) / 2 : UINT64_MAX;
  of = view;
  return last;
}

std::shared_ptr<const Packing> packing_for(const View& view, Algorithm algorithm) {
  if (algorithm != Algorithm::packed || view.empty()) return nullptr;
  // One call of a rank asks several times: to choose an algorithm, to hash its plan and to make it.
  thread_local View of;
  thread_local std::shared_ptr<const Packing> last;
  if (of != view) {
    last = std::make_shared<const Packing>(pack_trees(view.hosts()));
    of = view;
  }
  return last->empty() ? nullptr : last;
}

}  // namespace r2ccl
