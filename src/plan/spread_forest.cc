// Trees whose mean degrees are given (docs/schedules.md derives them). A member of mean degree
// 1 + e is an inner node in part of the chunks. So each chunk has slots for inner nodes, and each
// slot is worth `arity` degrees above one. All slots of a round lie in a row, each member has
// consecutive ones, and slot t belongs to chunk t modulo the number of chunks: systematic sampling
// (Madow 1949). So every member has its share of slots exactly, and no two in one chunk unless it
// needs more than one in each.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "plan/forest.h"

namespace r2ccl {
namespace {

// Returns for each member a number in proportion to its optimal mean degree above one. With T the
// floor in units of the vector, that is b T - 1 for a member of rate b.
std::vector<uint64_t> degree_weights(const std::vector<uint64_t>& rates) {
  // Small numbers, so that no product overflows.
  const uint64_t most = *std::ranges::max_element(rates);
  const int shift = std::max(0, static_cast<int>(std::bit_width(most)) - 20);
  const auto scaled = [&](uint64_t rate) { return std::max<uint64_t>(rate >> shift, 1); };
  uint64_t sum = 0;
  uint64_t least = UINT64_MAX;
  for (const uint64_t rate : rates) {
    sum += scaled(rate);
    least = std::min(least, scaled(rate));
  }
  const uint64_t floor = std::max(sum, 2 * (rates.size() - 1) * least);
  std::vector<uint64_t> weights;
  for (const uint64_t rate : rates) weights.push_back(scaled(rate) * floor - sum * least);
  return weights;
}

// Divides `total` among members in proportion to their weights, by the largest remainders.
std::vector<uint64_t> divide(uint64_t total, std::vector<uint64_t> weights) {
  uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  const int shift = std::max(0, static_cast<int>(std::bit_width(sum) + std::bit_width(total)) - 63);
  for (uint64_t& weight : weights) weight >>= shift;
  sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  R2CCL_CHECK(sum > 0);
  std::vector<uint64_t> parts;
  std::vector<std::pair<uint64_t, size_t>> rests;
  for (size_t member = 0; member < weights.size(); ++member) {
    parts.push_back(total * weights[member] / sum);
    rests.emplace_back(total * weights[member] % sum, member);
  }
  const uint64_t left = total - std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  std::ranges::stable_sort(rests, [](auto& a, auto& b) { return a.first > b.first; });
  for (uint64_t i = 0; i < left; ++i) ++parts[rests[i].second];
  return parts;
}

// The trees of one direction.
class Trees {
 public:
  Trees(const std::vector<uint64_t>& rates, uint32_t arity, uint64_t chunks)
      : size_(static_cast<uint32_t>(rates.size())),
        arity_(arity),
        chunks_(chunks),
        slots_((size_ - 2 + arity - 1) / arity),
        slowest_first_(size_) {
    std::iota(slowest_first_.begin(), slowest_first_.end(), 0);
    std::ranges::stable_sort(slowest_first_,
                             [&](uint32_t a, uint32_t b) { return rates[a] < rates[b]; });
    if (slots_ == 0) return;
    const std::vector<uint64_t> parts = divide(chunks * slots_, degree_weights(rates));
    for (uint32_t member = 0; member < size_; ++member) {
      owners_.insert(owners_.end(), parts[member], member);
    }
  }

  // Returns the member that is the root of a chunk unless another one is given.
  uint32_t root_of(uint64_t chunk) const {
    return slots_ == 0 ? slowest_first_[chunk % size_] : owners_[chunk];
  }

  // Computes the tree of a chunk, in order of depth: inner nodes first, then leaves, of which the
  // slowest are nearest to the root.
  void grow(uint64_t chunk, uint32_t root) {
    extras_.assign(size_, 0);
    is_inner_.assign(size_, false);
    order_.assign(1, root);
    is_inner_[root] = true;
    for (uint64_t slot = 0; slot < slots_; ++slot) {
      const uint32_t owner = owners_[slot * chunks_ + chunk];
      if (!is_inner_[owner]) order_.push_back(owner);
      is_inner_[owner] = true;
      extras_[owner] += worth(chunk, slot);
    }
    for (const uint32_t member : slowest_first_) {
      if (!is_inner_[member]) order_.push_back(member);
    }
    parents_.assign(1, 0);
    depths_.assign(1, 0);
    for (uint32_t at = 0; parents_.size() < size_; ++at) {
      parents_.insert(parents_.end(), children_of(at), at);
      depths_.insert(depths_.end(), children_of(at), depths_[at] + 1);
    }
  }

  uint32_t height() const { return depths_.back(); }

  // Returns what a member sees of the tree.
  TreeEnd end_of(uint32_t self) const {
    TreeEnd end;
    const auto at = static_cast<uint32_t>(std::ranges::find(order_, self) - order_.begin());
    if (at > 0) end.parent = order_[parents_[at]];
    end.depth = depths_[at];
    const auto [first, last] = std::equal_range(parents_.begin() + 1, parents_.end(), at);
    for (auto child = first; child != last; ++child) {
      end.children.push_back(order_[static_cast<size_t>(child - parents_.begin())]);
    }
    return end;
  }

 private:
  uint32_t children_of(uint32_t at) const { return extras_[order_[at]] + (at == 0 ? 1 : 0); }

  // The slots of a chunk are worth size - 2 degrees together: one of them is worth the rest.
  uint32_t worth(uint64_t chunk, uint64_t slot) const {
    const auto rest = static_cast<uint32_t>(size_ - 2 - (slots_ - 1) * arity_);
    return slot == chunk % slots_ ? rest : arity_;
  }

  const uint32_t size_;
  const uint32_t arity_;
  const uint64_t chunks_;
  const uint64_t slots_;
  std::vector<uint32_t> slowest_first_;
  std::vector<uint32_t> owners_;  // by slot
  // The tree that was grown last: its members in the order of their depth, and by that order the
  // places of the parents, and the depths.
  std::vector<uint32_t> order_;
  std::vector<uint32_t> parents_;
  std::vector<uint32_t> depths_;
  std::vector<uint32_t> extras_;  // by member: its children, but for one of the root's
  std::vector<bool> is_inner_;    // by member
};

// Returns a number without common factor with `chunks`, near its golden section: its multiples
// spread evenly over all chunks (Knuth 1973, section 6.4). A member's slots lie in neighbouring
// chunks, and these must not be on their way at the same time.
uint64_t stride_of(uint64_t chunks) {
  uint64_t stride = std::max<uint64_t>(chunks * 618 / 1000, 1);
  while (std::gcd(stride, chunks) != 1) ++stride;
  return stride;
}

}  // namespace

Forest spread_forest(const TotalRates& rates, uint32_t self, uint32_t arity, uint64_t chunks) {
  Trees rising(rates.receive, arity, chunks);
  Trees falling(rates.send, arity, chunks);
  Forest forest;
  const uint64_t stride = stride_of(chunks);
  for (uint64_t i = 0; i < chunks; ++i) {
    const uint64_t chunk = i * stride % chunks;
    const uint32_t root = falling.root_of(chunk);
    rising.grow(chunk, root);
    falling.grow(chunk, root);
    forest.height = std::max<uint64_t>({forest.height, rising.height(), falling.height()});
    forest.chunks.push_back(
        {.rising = rising.end_of(self), .falling = falling.end_of(self), .start = i});
  }
  forest.period = chunks;
  // While a chunk passes an inner node with `arity` children, so many half chunks follow it.
  forest.hop = (arity + 1) / 2 + 1;
  forest.set_window();
  return forest;
}

}  // namespace r2ccl
