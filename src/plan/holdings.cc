#include "plan/holdings.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace r2ccl {
namespace {

// Returns whether the blocks of the collective lie one after another in its vector.
bool is_vector(const PlanKey& key) {
  return key.collective == Collective::all_gather || key.collective == Collective::reduce_scatter;
}

void add(std::vector<Holding>& holdings, const Range& range, uint64_t offset, Rank of) {
  if (range.count > 0) holdings.push_back({range, offset, of});
}

// Where each block of a layout begins in memory.
class Places {
 public:
  Places(const PlanKey& key, const BlockLayout& layout) : key_(key), layout_(layout) {
    if (!layout.starts.empty() || layout.counts.empty()) return;
    starts_.reserve(layout.counts.size());
    uint64_t next = 0;
    for (const uint64_t count : layout.counts) {
      starts_.push_back(next);
      next += count;
    }
  }
  // Returns the end of the last block in memory.
  uint64_t end() const {
    if (layout_.counts.empty() && layout_.starts.empty()) {
      return key_.count * static_cast<uint64_t>(key_.rank_count);
    }
    uint64_t end = 0;
    for (int32_t r = 0; r < key_.rank_count; ++r) {
      const uint64_t count = count_in(key_, layout_, Rank(r));
      if (count > 0) end = std::max(end, (*this)[Rank(r)] + count);
    }
    return end;
  }
  uint64_t operator[](Rank rank) const {
    const auto index = static_cast<size_t>(rank.value());
    if (!layout_.starts.empty()) return layout_.starts[index];
    return starts_.empty() ? index * key_.count : starts_[index];
  }

 private:
  const PlanKey& key_;
  const BlockLayout& layout_;
  std::vector<uint64_t> starts_;
};

class ContentsOf {
 public:
  ContentsOf(const PlanKey& key, Rank self) : key_(key), self_(self), places_(key, key.blocks) {}

  Contents get() {
    switch (key_.collective) {
      case Collective::barrier:
        break;
      case Collective::all_reduce:
        whole(contents_.input, self_);
        whole(contents_.output, kNoRank);
        break;
      case Collective::reduce:
        whole(contents_.input, self_);
        if (is_root()) whole(contents_.output, kNoRank);
        break;
      case Collective::broadcast:
        if (is_root()) whole(contents_.input, self_);
        whole(contents_.output, key_.root);
        break;
      case Collective::all_gather:
        block(contents_.input, self_, 0, self_);
        blocks(contents_.output, std::nullopt);
        break;
      case Collective::reduce_scatter:
        blocks(contents_.input, self_);
        block(contents_.output, self_, 0, kNoRank);
        break;
      case Collective::gather:
        block(contents_.input, self_, 0, self_);
        if (is_root()) blocks(contents_.output, std::nullopt);
        break;
      case Collective::scatter:
        if (is_root()) blocks(contents_.input, self_);
        block(contents_.output, self_, 0, key_.root);
        break;
      case Collective::all_to_all:
        pairs();
        break;
    }
    contents_.extents = extents_of(key_, self_);
    contents_.overlay = overlay_of(key_, self_);
    return std::move(contents_);
  }

 private:
  bool is_root() const { return self_ == key_.root; }

  void whole(std::vector<Holding>& holdings, Rank of) const {
    add(holdings, {0, key_.count}, 0, of);
  }
  void block(std::vector<Holding>& holdings, Rank which, uint64_t offset, Rank of) const {
    add(holdings, block_of(key_, which), offset, of);
  }
  // Adds all blocks. Without `of` each is the input of its own rank.
  void blocks(std::vector<Holding>& holdings, std::optional<Rank> of) const {
    Range next = block_of(key_, Rank(0));
    for (int32_t r = 0; r < key_.rank_count; ++r) {
      next.count = count_in(key_, key_.blocks, Rank(r));
      add(holdings, next, places_[Rank(r)], of.value_or(Rank(r)));
      next.begin += is_vector(key_) ? next.count : kBlockElementsMax;
    }
  }
  void pairs() {
    const Places received(key_, key_.received);
    for (int32_t r = 0; r < key_.rank_count; ++r) {
      const Rank peer(r);
      add(contents_.input, pair_block_of(key_, self_, peer, self_), places_[peer], self_);
      add(contents_.output, pair_block_of(key_, peer, self_, self_), received[peer], peer);
    }
  }

  const PlanKey& key_;
  const Rank self_;
  const Places places_;
  Contents contents_;
};

// Returns the place of the range, or nothing if it is not there in one piece.
std::optional<uint64_t> find(std::span<const Holding> holdings, const Range& range) {
  auto held = std::ranges::upper_bound(holdings, range.begin, {},
                                       [](const Holding& h) { return h.range.begin; });
  if (held == holdings.begin()) return std::nullopt;
  --held;
  const uint64_t skipped = range.begin - held->range.begin;
  if (skipped >= held->range.count) return std::nullopt;
  const uint64_t offset = held->offset + skipped;
  uint64_t found = held->range.count - skipped;
  while (found < range.count) {
    const Holding& before = *held++;
    const bool goes_on = held != holdings.end() &&
                         held->range.begin == before.range.begin + before.range.count &&
                         held->offset == before.offset + before.range.count;
    if (!goes_on) return std::nullopt;
    found += held->range.count;
  }
  return offset;
}

}  // namespace

Overlay overlay_of(const PlanKey& key, Rank rank) {
  switch (key.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return {Places(key, key.blocks)[rank], 0};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return {0, Places(key, key.blocks)[rank]};
    default:
      return {};
  }
}

Contents contents_of(const PlanKey& key, Rank rank) {
  return ContentsOf(key, rank).get();
}

Extents extents_of(const PlanKey& key, Rank rank) {
  const auto blocks = [&] { return Places(key, key.blocks).end(); };
  const bool is_root = rank == key.root;
  switch (key.collective) {
    case Collective::barrier:
      return {};
    case Collective::all_reduce:
      return {key.count, key.count};
    case Collective::reduce:
      return {key.count, is_root ? key.count : 0};
    case Collective::broadcast:
      return {is_root ? key.count : 0, key.count};
    case Collective::all_gather:
      return {count_in(key, key.blocks, rank), blocks()};
    case Collective::reduce_scatter:
      return {blocks(), count_in(key, key.blocks, rank)};
    case Collective::gather:
      return {count_in(key, key.blocks, rank), is_root ? blocks() : 0};
    case Collective::scatter:
      return {is_root ? blocks() : 0, count_in(key, key.blocks, rank)};
    case Collective::all_to_all:
      return {blocks(), Places(key, key.received).end()};
  }
  R2CCL_CHECK(false);
  return {};
}

Range block_of(const PlanKey& key, Rank rank) {
  const auto index = static_cast<size_t>(rank.value());
  const uint64_t count = count_in(key, key.blocks, rank);
  if (!is_vector(key)) return {index * kBlockElementsMax, count};
  const std::vector<uint64_t>& counts = key.blocks.counts;
  if (counts.empty()) return {index * count, count};
  const auto end = counts.begin() + static_cast<std::ptrdiff_t>(index);
  return {std::accumulate(counts.begin(), end, uint64_t{0}), count};
}

Range pair_block_of(const PlanKey& key, Rank from, Rank to, Rank self) {
  R2CCL_CHECK(key.rank_count <= kAllToAllRanksMax);
  const auto ranks = static_cast<uint64_t>(key.rank_count);
  const uint64_t pair =
      static_cast<uint64_t>(from.value()) * ranks + static_cast<uint64_t>(to.value());
  const uint64_t count =
      from == self ? count_in(key, key.blocks, to) : count_in(key, key.received, from);
  return {pair * kBlockElementsMax, count};
}

uint64_t vector_count(const PlanKey& key) {
  if (key.collective == Collective::barrier) return 0;
  if (!is_vector(key)) return key.count;
  const Range last = block_of(key, Rank(key.rank_count - 1));
  return last.begin + last.count;
}

uint64_t count_in(const PlanKey& key, const BlockLayout& layout, Rank rank) {
  return layout.counts.empty() ? key.count : layout.counts[static_cast<size_t>(rank.value())];
}

bool has_own_counts(const PlanKey& key) {
  const bool by_pair = key.collective == Collective::gather ||
                       key.collective == Collective::scatter ||
                       key.collective == Collective::all_to_all;
  return by_pair && !key.blocks.counts.empty();
}

uint64_t count_with(const PlanKey& key, Rank self, Rank peer, bool sends) {
  if (key.collective == Collective::all_to_all) {
    return count_in(key, sends ? key.blocks : key.received, peer);
  }
  // The block belongs to the one that is not the root.
  return count_in(key, key.blocks, self == key.root ? peer : self);
}

uint64_t offset_of(std::span<const Holding> holdings, const Range& range) {
  const std::optional<uint64_t> offset = find(holdings, range);
  R2CCL_CHECK(offset.has_value());
  return *offset;
}

bool holds(std::span<const Holding> holdings, const Range& range) {
  return find(holdings, range).has_value();
}

}  // namespace r2ccl
