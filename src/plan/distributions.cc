// AllGather, Gather, Scatter and AllToAll; backwards, AllGather is ReduceScatter.
//
// AllGather has three forms. n is the whole vector, p the number of ranks.
//
//   ring    rank i sends to i + 1 the block that it received last, in p - 1 steps. It moves the
//           least bytes, also between hosts of several ranks: the ring visits all ranks of a host
//           one after another, and each host sends (p - 1) / p n. Pieces of a block follow each
//           other, as in ring.cc, so the latency counts once. Large blocks go around in groups of
//           pieces: backwards, a rank holds the partial results of one group.
//   direct  each rank sends its block to every other: one hop, p - 1 messages each. Backwards all
//           additions of an element are at its own rank, so a sum of 16-bit elements is rounded
//           once.
//   Bruck   (Bruck et al. 1997) in round k rank r receives the blocks from r + 2^k on that the rank
//           2^k further has by then: ceil(log2 p) hops for any p. Blocks travel by their places in
//           the result, so a run that wraps around has two messages, and no rotation is needed.
//
// Gather and Scatter: one hop between each rank and the root, whose line is the limit.
// AllToAll: each pair of ranks exchanges directly; in round k rank r sends to r + k, so that no
// rank receives from two at once.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "plan/algorithms.h"
#include "plan/ring_order.h"

namespace r2ccl {
namespace {

Range piece_of(const Range& block, uint64_t piece, uint64_t segment) {
  R2CCL_CHECK(segment > 0);
  const uint64_t skipped = std::min(piece * segment, block.count);
  return {block.begin + skipped, std::min(segment, block.count - skipped)};
}

uint64_t largest_block(const PlanKey& key) {
  uint64_t most = 0;
  for (int32_t r = 0; r < key.rank_count; ++r) {
    most = std::max(most, count_in(key, key.blocks, Rank(r)));
  }
  return most;
}

Rank neighbour(Rank self, int32_t distance, const PlanKey& key) {
  R2CCL_CHECK(distance > 0 && distance < key.rank_count);
  return Rank((self.value() + distance) % key.rank_count);
}

}  // namespace

Transfers ring_gather(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const std::vector<Rank> order = ranks_in_ring_order(key);
  const size_t size = order.size();
  const auto at = static_cast<size_t>(std::ranges::find(order, self) - order.begin());
  R2CCL_CHECK(at < size);
  const Rank next = order[(at + 1) % size];
  const Rank previous = order[(at + size - 1) % size];
  const uint64_t largest = largest_block(key);
  const uint64_t segment = ring_segment(largest * size, size, key.type, limits);
  const uint64_t pieces = (largest + segment - 1) / segment;
  const uint64_t group =
      std::max<uint64_t>(limits.spare_scratch_bytes / (segment * size_of(key.type)), 2);
  Transfers transfers(segment);
  for (uint64_t first = 0; first < pieces; first += group) {
    const uint64_t end = std::min(first + group, pieces);
    for (size_t k = 0; k + 1 < size; ++k) {
      const Range sent = block_of(key, order[(at + size - k) % size]);
      const Range received = block_of(key, order[(at + size - k - 1) % size]);
      for (uint64_t piece = first; piece < end; ++piece) {
        transfers.send(next, piece_of(sent, piece, segment));
        transfers.receive(previous, piece_of(received, piece, segment));
      }
    }
  }
  return transfers;
}

Transfers direct_gather(const PlanKey& key, Rank self, uint64_t group, const PlanLimits& limits) {
  Transfers transfers(segment_count(limits.segment_bytes_max, key.type, limits));
  const uint64_t most = largest_block(key);
  for (uint64_t part = 0; part == 0 || part * group < most; ++part) {
    for (int32_t k = 1; k < key.rank_count; ++k) {
      const Rank from = neighbour(self, key.rank_count - k, key);
      transfers.send(neighbour(self, k, key), piece_of(block_of(key, self), part, group));
      transfers.receive(from, piece_of(block_of(key, from), part, group));
    }
  }
  return transfers;
}

Transfers bruck_gather(const PlanKey& key, Rank self, const PlanLimits& limits) {
  Transfers transfers(segment_count(limits.segment_bytes_max, key.type, limits));
  // Calls f(range) for the one or two runs of `blocks` blocks from rank `first` on.
  const auto for_each_run = [&](Rank first, int32_t blocks, auto f) {
    const int32_t straight = std::min(blocks, key.rank_count - first.value());
    f(Range{block_of(key, first).begin, static_cast<uint64_t>(straight) * key.count});
    f(Range{0, static_cast<uint64_t>(blocks - straight) * key.count});
  };
  for (int32_t distance = 1; distance < key.rank_count; distance *= 2) {
    const int32_t blocks = std::min(distance, key.rank_count - distance);
    const Rank from = neighbour(self, distance, key);
    const Rank to = neighbour(self, key.rank_count - distance, key);
    for_each_run(self, blocks, [&](const Range& run) { transfers.send(to, run); });
    for_each_run(from, blocks, [&](const Range& run) { transfers.receive(from, run); });
  }
  return transfers;
}

namespace {

// Adds the messages between the root and the others; `add(piece, rank)` adds one. They go to all
// ranks in turn, piece by piece. Where counts are unequal, only the root and the rank know the
// rank's. A block without elements then is an empty message, so that both see when they differ:
// `add_empty(rank)` adds it.
template <typename Add, typename AddEmpty>
void exchange_with_root(const PlanKey& key, Rank self, uint64_t segment, Add add,
                        AddEmpty add_empty) {
  std::vector<Rank> others;
  if (self != key.root) others.push_back(self);
  for (int32_t k = 1; self == key.root && k < key.rank_count; ++k) {
    others.push_back(neighbour(self, k, key));
  }
  uint64_t most = 0;
  for (const Rank other : others) {
    const uint64_t count = count_in(key, key.blocks, other);
    most = std::max(most, count);
    if (count == 0 && has_own_counts(key)) add_empty(other);
  }
  for (uint64_t piece = 0; piece * segment < most; ++piece) {
    for (const Rank other : others) add(piece_of(block_of(key, other), piece, segment), other);
  }
}

}  // namespace

Transfers root_gather(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const uint64_t segment = segment_count(limits.segment_bytes_max, key.type, limits);
  Transfers transfers(segment);
  exchange_with_root(
      key, self, segment,
      [&](const Range& piece, Rank other) {
        self == other ? transfers.send(key.root, piece) : transfers.receive(other, piece);
      },
      [&](Rank other) {
        self == other ? transfers.send_empty(key.root) : transfers.receive_empty(other);
      });
  return transfers;
}

Transfers root_scatter(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const uint64_t segment = segment_count(limits.segment_bytes_max, key.type, limits);
  Transfers transfers(segment);
  exchange_with_root(
      key, self, segment,
      [&](const Range& piece, Rank other) {
        self == other ? transfers.receive(key.root, piece) : transfers.send(other, piece);
      },
      [&](Rank other) {
        self == other ? transfers.receive_empty(key.root) : transfers.send_empty(other);
      });
  return transfers;
}

Transfers exchange_all(const PlanKey& key, Rank self, const PlanLimits& limits) {
  Transfers transfers(segment_count(limits.segment_bytes_max, key.type, limits));
  for (int32_t k = 1; k < key.rank_count; ++k) {
    const Rank to = neighbour(self, k, key);
    const Rank from = neighbour(self, key.rank_count - k, key);
    const Range sent = pair_block_of(key, self, to, self);
    const Range received = pair_block_of(key, from, self, self);
    // As in exchange_with_root().
    if (sent.count == 0 && has_own_counts(key)) transfers.send_empty(to);
    if (received.count == 0 && has_own_counts(key)) transfers.receive_empty(from);
    transfers.send(to, sent);
    transfers.receive(from, received);
  }
  return transfers;
}

}  // namespace r2ccl
