#include "sim/cluster/operation_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/reduction.h"
#include "plan/holdings.h"

namespace r2ccl::sim {
namespace {

using Kind = OperationSpec::Kind;
using reference::Element;
using reference::with_type;

// Returns the most bits of an input for which the sum over the ranks of any job is exact.
constexpr int sum_bits(DataType type) {
  return type == DataType::float16 ? 7 : type == DataType::bfloat16 ? 4 : 20;
}

// Returns a value below 2^20.
uint64_t value(size_t operation, int rank, size_t element) {
  uint64_t mixed = (operation * 1024 + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15;
  mixed += element * 0xbf58476d1ce4e5b9;
  return (mixed ^ (mixed >> 29)) >> 44;
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

template <DataType kType>
typename Element<kType>::Stored stored(uint64_t value) {
  using E = Element<kType>;
  return E::stored(static_cast<typename E::Number>(value));
}

// Returns the element of the rank's input. All results of it are exact: in the 16-bit types, copied
// values have eight bits, and a product of sixteen factors is a power of two.
template <DataType kType>
typename Element<kType>::Stored input(const OperationSpec& spec, size_t operation, int rank,
                                      size_t element) {
  using E = Element<kType>;
  const uint64_t chosen = value(operation, rank, element);
  if (is_integer(kType)) return stored<kType>(chosen);
  if (reduces(spec.kind) && spec.op == ReduceOp::prod) {
    static constexpr float kFactors[] = {1, -1, 2, 0.5};
    return E::stored(static_cast<typename E::Number>(kFactors[chosen % 4]));
  }
  const bool added = reduces(spec.kind) && spec.op != ReduceOp::max && spec.op != ReduceOp::min;
  const int factor_bits = spec.op == ReduceOp::premulsum ? 2 : 0;
  const int bits = added ? sum_bits(kType) - factor_bits : std::max(sum_bits(kType), 8);
  return stored<kType>(chosen & ((uint64_t{1} << bits) - 1));
}

// Returns the number from 1 to 3 by which a rank multiplies in a pre-multiplied sum.
template <DataType kType>
typename Element<kType>::Stored factor(size_t operation, int rank) {
  return stored<kType>((operation + static_cast<size_t>(rank)) % 3 + 1);
}

template <DataType kType>
typename Element<kType>::Stored reduced(const OperationSpec& spec, size_t operation, int ranks,
                                        size_t element) {
  const auto of_rank = [&](int rank) {
    const auto own = input<kType>(spec, operation, rank, element);
    if (spec.op != ReduceOp::premulsum) return own;
    return reference::product<kType>(own, factor<kType>(operation, rank));
  };
  auto result = of_rank(0);
  for (int rank = 1; rank < ranks; ++rank) {
    result = reference::reduced<kType>(spec.op, result, of_rank(rank));
  }
  return spec.op == ReduceOp::avg ? reference::divided<kType>(result, ranks) : result;
}

// Returns an element of the output of Sends and Recvs.
template <DataType kType>
typename Element<kType>::Stored exchanged(const OperationSpec& spec, size_t operation, int rank,
                                          int ranks, size_t element) {
  switch (spec.kind) {
    case Kind::run_ahead:
    case Kind::tagged_ahead:
      return input<kType>(spec, operation, spec.root, element);
    case Kind::shift:
      return input<kType>(spec, operation, (rank + ranks - 1) % ranks, element);
    case Kind::send_to_all: {
      // Part `from` of the output is the part of that rank's input for this rank.
      const auto from = static_cast<int>(element / spec.count);
      const size_t there = static_cast<size_t>(rank) * spec.count + element % spec.count;
      return input<kType>(spec, operation, from, there);
    }
    default:
      return {};
  }
}

// Calls put(position, element) for the messages of a `tagged` operation.
template <DataType kType, typename Put>
void expect_tagged(const OperationSpec& spec, size_t operation, int rank, int ranks, Put put) {
  for (int from = 0; from < ranks; ++from) {
    for (int m = 0; m < kTagged; ++m) {
      for (uint64_t i = 0; i < tagged_count(spec, m); ++i) {
        put(tagged_at(spec, from, m) + i,
            input<kType>(spec, operation, from, tagged_at(spec, rank, m) + i));
      }
    }
  }
}

// Calls put(position, element) for the output of a collective.
template <DataType kType, typename Put>
void expect_collective(const OperationSpec& spec, size_t operation, int rank, int ranks, Put put) {
  for (const Holding& held : contents_of(plan_key_of(spec, rank, ranks), Rank(rank)).output) {
    if (held.of == kNoRank) {
      for (uint64_t i = 0; i < held.range.count; ++i) {
        put(held.offset + i, reduced<kType>(spec, operation, ranks, held.range.begin + i));
      }
      continue;
    }
    const int of = held.of.value();
    const Contents theirs = contents_of(plan_key_of(spec, of, ranks), held.of);
    const uint64_t there = offset_of(theirs.input, held.range);
    for (uint64_t i = 0; i < held.range.count; ++i) {
      put(held.offset + i, input<kType>(spec, operation, of, there + i));
    }
  }
}

Collective collective_of(Kind kind) {
  switch (kind) {
    case Kind::broadcast:
      return Collective::broadcast;
    case Kind::barrier:
      return Collective::barrier;
    case Kind::reduce:
      return Collective::reduce;
    case Kind::all_gather:
      return Collective::all_gather;
    case Kind::reduce_scatter:
      return Collective::reduce_scatter;
    case Kind::gather:
      return Collective::gather;
    case Kind::scatter:
      return Collective::scatter;
    case Kind::all_to_all:
      return Collective::all_to_all;
    default:
      return Collective::all_reduce;
  }
}

// Returns the elements of a block among blocks that are unequal: 0 to about `count`.
uint64_t unequal_count(uint64_t count, int number) {
  return count * static_cast<uint64_t>(number * 7 % 5) / 4;
}

uint64_t tagged_size(const OperationSpec& spec, int ranks) {
  return tagged_at(spec, ranks, 0);
}

bool may_be_in_place(const OperationSpec& spec, int rank) {
  switch (spec.kind) {
    case Kind::shift:
    case Kind::send_to_all:
    case Kind::all_to_all:
    case Kind::tagged:
    case Kind::tagged_ahead:
      return false;
    case Kind::reduce:
    case Kind::gather:
    case Kind::scatter:
      return rank == spec.root;
    default:
      return true;
  }
}

}  // namespace

uint64_t tagged_count(const OperationSpec& spec, int m) {
  return unequal_count(spec.count, m);
}

uint64_t tagged_at(const OperationSpec& spec, int peer, int m) {
  return spec.count * static_cast<uint64_t>(peer * kTagged + m);
}

bool is_collective(const OperationSpec& spec) {
  switch (spec.kind) {
    case Kind::shift:
    case Kind::send_to_all:
    case Kind::run_ahead:
    case Kind::tagged:
    case Kind::tagged_ahead:
      return false;
    default:
      return true;
  }
}

bool reduces(const OperationSpec& spec) {
  return spec.kind == Kind::all_reduce || spec.kind == Kind::reduce ||
         spec.kind == Kind::reduce_scatter;
}

PlanKey plan_key_of(const OperationSpec& spec, int rank, int ranks) {
  PlanKey key;
  key.collective = collective_of(spec.kind);
  key.type = spec.type;
  if (reduces(spec)) key.op = spec.op;
  key.algorithm = spec.algorithm;
  key.rank_count = ranks;
  const bool rooted = spec.kind == Kind::broadcast || spec.kind == Kind::reduce ||
                      spec.kind == Kind::gather || spec.kind == Kind::scatter;
  if (rooted) key.root = Rank(spec.root);
  if (!spec.unequal) {
    key.count = spec.count;
    return key;
  }
  const bool pairs = spec.kind == Kind::all_to_all;
  const bool knows_own = (spec.kind == Kind::gather || spec.kind == Kind::scatter) &&
                         rank != spec.root;  // and no other
  for (int peer = 0; peer < ranks; ++peer) {
    const bool known = !knows_own || peer == rank;
    const int number = pairs ? 3 * rank + peer : peer;
    key.blocks.counts.push_back(known ? unequal_count(spec.count, number) : 0);
    if (pairs) key.received.counts.push_back(unequal_count(spec.count, 3 * peer + rank));
  }
  return key;
}

OperationMemory memory_of(const OperationSpec& spec, int rank, int ranks) {
  OperationMemory memory;
  memory.in_place = spec.in_place && may_be_in_place(spec, rank);
  if (spec.kind == Kind::tagged) {
    memory.input_count = memory.output_count = tagged_size(spec, ranks);
    return memory;
  }
  if (!is_collective(spec) || spec.kind == Kind::broadcast) {
    const auto peers = static_cast<uint64_t>(spec.kind == Kind::send_to_all ? ranks : 1);
    memory.input_count = memory.output_count = spec.count * peers;
    return memory;
  }
  const PlanKey key = plan_key_of(spec, rank, ranks);
  const Extents extents = extents_of(key, Rank(rank));
  memory.input_count = extents.input_count;
  memory.output_count = extents.output_count;
  if (memory.in_place) {
    const Overlay overlay = overlay_of(key, Rank(rank));
    memory.input_at = overlay.input_at;
    memory.output_at = overlay.output_at;
  }
  return memory;
}

void fill_input(const OperationSpec& spec, size_t operation, int rank,
                std::span<std::byte> memory) {
  with_type(spec.type, [&](auto type) {
    constexpr DataType kType = decltype(type)::kValue;
    for (size_t i = 0; i < memory.size() / size_of(kType); ++i) {
      const auto element = input<kType>(spec, operation, rank, i);
      std::memcpy(memory.data() + i * sizeof(element), &element, sizeof(element));
    }
  });
}

Scalar scalar_of(const OperationSpec& spec, size_t operation, int rank) {
  return with_type(spec.type, [&](auto type) {
    return reference::scalar_of(factor<decltype(type)::kValue>(operation, rank));
  });
}

void fill_expected(const OperationSpec& spec, size_t operation, int rank, int ranks,
                   std::span<std::byte> output) {
  with_type(spec.type, [&](auto type) {
    constexpr DataType kType = decltype(type)::kValue;
    const auto put = [&](size_t i, typename Element<kType>::Stored element) {
      std::memcpy(output.data() + i * sizeof(element), &element, sizeof(element));
    };
    if (is_collective(spec)) return expect_collective<kType>(spec, operation, rank, ranks, put);
    if (spec.kind == Kind::tagged) {
      std::ranges::fill(output, kUnset);
      return expect_tagged<kType>(spec, operation, rank, ranks, put);
    }
    for (size_t i = 0; i < output.size() / size_of(kType); ++i) {
      put(i, exchanged<kType>(spec, operation, rank, ranks, i));
    }
  });
}

bool expects_the_same(const OperationSpec& spec) {
  return spec.kind == Kind::all_reduce || spec.kind == Kind::broadcast;
}

size_t count_wrong(const OperationSpec& spec, std::span<const std::byte> output,
                   std::span<const std::byte> expected) {
  if (output.empty() || std::memcmp(output.data(), expected.data(), output.size()) == 0) return 0;
  const size_t size = size_of(spec.type);
  size_t wrong = 0;
  for (size_t at = 0; at < output.size(); at += size) {
    wrong += std::memcmp(output.data() + at, expected.data() + at, size) == 0 ? 0 : 1;
  }
  return wrong;
}

}  // namespace r2ccl::sim
