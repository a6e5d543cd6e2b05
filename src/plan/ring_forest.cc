// Rings as forests. Partial results of a chunk rise along the ring and end at its root, and the
// result goes on from there; each chunk has another root. Members outside the ring are leaves of
// it. They attach where a ring member has no other neighbour: at the ends of the two paths.
//
// With one slow host as a leaf these are the four stages of OptCC (arXiv 2606.01680): scatter from
// it, reduce-scatter and all-gather among the others, gather to it. R2CCL-AllReduce (arXiv
// 2512.25059) sends one share of the vector so, and another one through a ring of all.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "plan/forest.h"

namespace r2ccl {
namespace {

// More roots than this divide the work no better, and cost messages.
constexpr size_t kRootsMax = 128;

class RingTrees {
 public:
  // `order`: the leaves, then the ring.
  RingTrees(const std::vector<uint32_t>& order, uint32_t leaves)
      : leaves_(order.begin(), order.begin() + leaves), ring_(order.begin() + leaves, order.end()) {
    std::ranges::sort(ring_);
  }

  size_t size() const { return ring_.size(); }
  // Returns the largest depth of a tree.
  uint64_t height() const { return size() - 1 + (leaves_.empty() ? 0 : 1); }

  ChunkTrees chunk(size_t root, uint32_t self) const {
    ChunkTrees trees;
    const auto in_ring = std::ranges::find(ring_, self);
    if (in_ring == ring_.end()) {
      const size_t leaf = static_cast<size_t>(std::ranges::find(leaves_, self) - leaves_.begin());
      trees.rising.parent = ring_[behind(root, host_of(leaf))];
      trees.falling.parent = ring_[beyond(root, host_of(leaf))];
      trees.rising.depth = trees.falling.depth = static_cast<uint32_t>(host_of(leaf) + 1);
      return trees;
    }
    const size_t place = static_cast<size_t>(in_ring - ring_.begin());
    const size_t before_root = (root + size() - place) % size();
    const size_t after_root = (place + size() - root) % size();
    trees.rising = end(before_root, place, 1);
    trees.falling = end(after_root, place, size() - 1);
    return trees;
  }

 private:
  size_t behind(size_t root, size_t distance) const { return (root + size() - distance) % size(); }
  size_t beyond(size_t root, size_t distance) const { return (root + distance) % size(); }
  // Returns the distance from the root of the member to which a leaf attaches. The first leaf is at
  // the end of the path, and the others follow at equal distances.
  size_t host_of(size_t leaf) const { return size() - 1 - leaf * size() / leaves_.size(); }

  // Returns what the member at `place` sees, `depth` away from the root; `toward` leads to it.
  TreeEnd end(size_t depth, size_t place, size_t toward) const {
    TreeEnd end;
    end.depth = static_cast<uint32_t>(depth);
    if (depth > 0) end.parent = ring_[(place + toward) % size()];
    if (depth + 1 < size()) end.children.push_back(ring_[(place + size() - toward) % size()]);
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      if (host_of(leaf) == depth) end.children.push_back(leaves_[leaf]);
    }
    return end;
  }

  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> ring_;
};

}  // namespace

std::vector<uint32_t> slowest_first(const TotalRates& rates) {
  std::vector<uint32_t> order(rates.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](uint32_t a, uint32_t b) { return rates.least_of(a) < rates.least_of(b); });
  return order;
}

Forest ring_forest(const TotalRates& rates, const std::vector<RingShare>& shares, uint32_t self) {
  Forest forest;
  forest.period = 0;
  for (const RingShare& share : shares) {
    const RingTrees trees(slowest_first(rates), share.leaves);
    const size_t roots = std::min(trees.size(), kRootsMax);
    for (size_t i = 0; i < roots; ++i) {
      ChunkTrees chunk = trees.chunk(i * trees.size() / roots, self);
      chunk.weight = share.share * (kRootsMax * kRootsMax / roots);
      chunk.start = forest.period;
      forest.chunks.push_back(std::move(chunk));
    }
    forest.height = std::max(forest.height, trees.height());
    forest.period += 2 * (trees.size() - 1) * roots / trees.size() + 1;
  }
  forest.set_window();
  return forest;
}

std::vector<RingShare> ring_shares(const TotalRates& rates, Algorithm algorithm) {
  const std::vector<uint32_t> order = slowest_first(rates);
  const auto rate = [&](size_t i) { return rates.least_of(order[i]); };
  // Each share is in 1/1024 of the fastest host's rate.
  const uint64_t most = rate(order.size() - 1);
  const auto part = [&](uint64_t difference) { return difference * 1024 / most; };
  if (algorithm == Algorithm::leaf) return {{.leaves = 1, .share = 1}};
  std::vector<RingShare> shares{{.leaves = 0, .share = std::max<uint64_t>(part(rate(0)), 1)}};
  const size_t levels = algorithm == Algorithm::split ? 2 : order.size() - 1;
  for (uint32_t leaves = 1; leaves < levels; ++leaves) {
    const uint64_t next = leaves + 1 == levels ? most : rate(leaves);
    const uint64_t share = part(next - rate(leaves - 1));
    if (share > 0) shares.push_back({leaves, share});
  }
  return shares;
}

}  // namespace r2ccl
