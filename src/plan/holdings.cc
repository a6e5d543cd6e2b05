#include "plan/holdings.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace r2ccl {
namespace {

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
    contents_.input_count = end_of(contents_.input);
    contents_.output_count = end_of(contents_.output);
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
    uint64_t begin = 0;
    for (int32_t r = 0; r < key_.rank_count; ++r) {
      const uint64_t count = count_in(key_, key_.blocks, Rank(r));
      add(holdings, {begin, count}, places_[Rank(r)], of.value_or(Rank(r)));
      begin += count;
    }
  }
  void pairs() {
    const Places received(key_, key_.received);
    for (int32_t r = 0; r < key_.rank_count; ++r) {
      const Rank peer(r);
      add(contents_.input,
          {pair_begin(key_, self_, peer), count_in(key_, key_.blocks, peer)}, places_[peer], self_);
      add(contents_.output,
          {pair_begin(key_, peer, self_), count_in(key_, key_.received, peer)}, received[peer],
          peer);
    }
  }
  static uint64_t end_of(const std::vector<Holding>& holdings) {
    uint64_t end = 0;
    for (const Holding& held : holdings) end = std::max(end, held.offset + held.range.count);
    return end;
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

uint64_t count_in(const PlanKey& key, const BlockLayout& layout, Rank rank) {
  return layout.counts.empty() ? key.count : layout.counts[static_cast<size_t>(rank.value())];
}

Range block_of(const PlanKey& key, Rank rank) {
  const auto index = static_cast<size_t>(rank.value());
  const std::vector<uint64_t>& counts = key.blocks.counts;
  if (counts.empty()) return {index * key.count, key.count};
  const auto self = counts.begin() + static_cast<std::ptrdiff_t>(index);
  return {std::accumulate(counts.begin(), self, uint64_t{0}), *self};
}

uint64_t vector_count(const PlanKey& key) {
  switch (key.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      return key.count;
    case Collective::barrier:
      return 0;
    default:
      break;
  }
  const Range last = block_of(key, Rank(key.rank_count - 1));
  return last.begin + last.count;
}

uint64_t pair_begin(const PlanKey& key, Rank from, Rank to) {
  R2CCL_CHECK(key.rank_count <= kAllToAllRanksMax);
  const auto ranks = static_cast<uint64_t>(key.rank_count);
  const uint64_t pair =
      static_cast<uint64_t>(from.value()) * ranks + static_cast<uint64_t>(to.value());
  return pair * kPairElementsMax;
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
