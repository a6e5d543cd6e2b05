// AllGather, Gather, Scatter and AllToAll; backwards, AllGather is ReduceScatter.
//
// AllGather has three forms. n is the whole vector, p the number of ranks.
//
//   ring    rank i sends to i + 1 the block that it received last: p - 1 steps, the least bytes also
//           between hosts of several ranks, because the ring visits all ranks of a host one after
//           another and each host sends (p - 1) / p n. Pieces of a block follow each other, as in
//           ring.cc, so the latency counts once. Large blocks go around in groups of pieces:
//           backwards, a rank holds the partial results of one group.
//   direct  each rank sends its block to every other: one hop, p - 1 messages each. Backwards all
//           additions of an element are at its own rank.
//   Bruck   (Bruck et al. 1997) in round k rank r receives the blocks from r + 2^k on that the rank
//           2^k further has by then: ceil(log2 p) hops for any p. Blocks travel by their places in
//           the result, so a run that wraps around has two messages, and no rotation is needed.
//
// Gather and Scatter: one hop between each rank and the root, whose line is the limit.
// AllToAll: each pair of ranks exchanges directly; in round k rank r sends to r + k, so that no rank
// receives from two at once.
#include <algorithm>
#include <vector>

#include "plan/algorithms.h"

namespace r2ccl {
namespace {

// Returns all ranks, host by host.
std::vector<Rank> ring_order(const PlanKey& key) {
  std::vector<Rank> order;
  for (const std::vector<Rank>& host : key.hosts.hosts()) {
    order.insert(order.end(), host.begin(), host.end());
  }
  if (!order.empty()) return order;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) order.emplace_back(rank);
  return order;
}

Range piece_of(const Range& block, uint64_t piece, uint64_t segment) {
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
  return Rank((self.value() + distance) % key.rank_count);
}

}  // namespace

Transfers ring_gather(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const std::vector<Rank> order = ring_order(key);
  const size_t size = order.size();
  const auto at = static_cast<size_t>(std::ranges::find(order, self) - order.begin());
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

Transfers direct_gather(const PlanKey& key, Rank self, const PlanLimits& limits) {
  Transfers transfers(segment_count(limits.segment_bytes_max, key.type, limits));
  for (int32_t k = 1; k < key.rank_count; ++k) {
    const Rank from = neighbour(self, key.rank_count - k, key);
    transfers.send(neighbour(self, k, key), block_of(key, self));
    transfers.receive(from, block_of(key, from));
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

Transfers root_gather(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const uint64_t segment = segment_count(limits.segment_bytes_max, key.type, limits);
  Transfers transfers(segment);
  if (self != key.root) {
    transfers.send(key.root, block_of(key, self));
    return transfers;
  }
  // All ranks send at once, so the receives of all of them come piece by piece.
  const uint64_t pieces = (largest_block(key) + segment - 1) / segment;
  for (uint64_t piece = 0; piece < pieces; ++piece) {
    for (int32_t k = 1; k < key.rank_count; ++k) {
      const Rank from = neighbour(self, k, key);
      transfers.receive(from, piece_of(block_of(key, from), piece, segment));
    }
  }
  return transfers;
}

Transfers root_scatter(const PlanKey& key, Rank self, const PlanLimits& limits) {
  const uint64_t segment = segment_count(limits.segment_bytes_max, key.type, limits);
  Transfers transfers(segment);
  if (self != key.root) {
    transfers.receive(key.root, block_of(key, self));
    return transfers;
  }
  const uint64_t pieces = (largest_block(key) + segment - 1) / segment;
  for (uint64_t piece = 0; piece < pieces; ++piece) {
    for (int32_t k = 1; k < key.rank_count; ++k) {
      const Rank to = neighbour(self, k, key);
      transfers.send(to, piece_of(block_of(key, to), piece, segment));
    }
  }
  return transfers;
}

Transfers exchange_all(const PlanKey& key, Rank self, const PlanLimits& limits) {
  Transfers transfers(segment_count(limits.segment_bytes_max, key.type, limits));
  // Where counts are unequal, only the two ranks of a pair know theirs. A pair without elements
  // exchanges an empty message, so that it sees when its two counts differ.
  const bool tells = !key.blocks.counts.empty();
  for (int32_t k = 1; k < key.rank_count; ++k) {
    const Rank to = neighbour(self, k, key);
    const Rank from = neighbour(self, key.rank_count - k, key);
    const Range sent{pair_begin(key, self, to), count_in(key, key.blocks, to)};
    const Range received{pair_begin(key, from, self), count_in(key, key.received, from)};
    if (tells && sent.count == 0) transfers.send_empty(to);
    if (tells && received.count == 0) transfers.receive_empty(from);
    transfers.send(to, sent);
    transfers.receive(from, received);
  }
  return transfers;
}

}  // namespace r2ccl
