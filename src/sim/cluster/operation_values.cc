#include "sim/cluster/operation_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "plan/holdings.h"

namespace r2ccl::sim {
namespace {

using Kind = OperationSpec::Kind;

// Returns a value below 2^20, so that the sum over all ranks of a job is exact in a float.
int64_t value(size_t operation, int rank, size_t element) {
  uint64_t mixed = (operation * 1024 + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15;
  mixed += element * 0xbf58476d1ce4e5b9;
  return static_cast<int64_t>((mixed ^ (mixed >> 29)) >> 44);
}

int64_t reduced(ReduceOp op, size_t operation, int ranks, size_t element) {
  int64_t result = value(operation, 0, element);
  for (int rank = 1; rank < ranks; ++rank) {
    const int64_t next = value(operation, rank, element);
    switch (op) {
      case ReduceOp::max:
        result = std::max(result, next);
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::sum:
      case ReduceOp::avg:
        result += next;
        break;
    }
  }
  return result;
}

template <typename T>
T reduced_to(const OperationSpec& spec, size_t operation, int ranks, size_t element) {
  const T sum = static_cast<T>(reduced(spec.op, operation, ranks, element));
  return spec.op == ReduceOp::avg ? static_cast<T>(sum / static_cast<T>(ranks)) : sum;
}

// Returns an element of the output of Sends and Recvs.
template <typename T>
T exchanged(const OperationSpec& spec, size_t operation, int rank, int ranks, size_t element) {
  switch (spec.kind) {
    case Kind::run_ahead:
      return static_cast<T>(value(operation, spec.root, element));
    case Kind::shift:
      return static_cast<T>(value(operation, (rank + ranks - 1) % ranks, element));
    case Kind::send_to_all: {
      // Part `from` of the output is the part of that rank's input for this rank.
      const auto from = static_cast<int>(element / spec.count);
      const size_t there = static_cast<size_t>(rank) * spec.count + element % spec.count;
      return static_cast<T>(value(operation, from, there));
    }
    default:
      return T{};
  }
}

// Calls put(position, element) for the output of a collective.
template <typename T, typename Put>
void expect_collective(const OperationSpec& spec, size_t operation, int rank, int ranks, Put put) {
  for (const Holding& held : contents_of(plan_key_of(spec, rank, ranks), Rank(rank)).output) {
    if (held.of == kNoRank) {
      for (uint64_t i = 0; i < held.range.count; ++i) {
        put(held.offset + i, reduced_to<T>(spec, operation, ranks, held.range.begin + i));
      }
      continue;
    }
    const int of = held.of.value();
    const Contents theirs = contents_of(plan_key_of(spec, of, ranks), held.of);
    const uint64_t there = offset_of(theirs.input, held.range);
    for (uint64_t i = 0; i < held.range.count; ++i) {
      put(held.offset + i, static_cast<T>(value(operation, of, there + i)));
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

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

// Returns the elements of a block among blocks that are unequal: 0 to about `count`.
uint64_t unequal_count(uint64_t count, int number) {
  return count * static_cast<uint64_t>(number * 7 % 5) / 4;
}

bool may_be_in_place(const OperationSpec& spec, int rank) {
  switch (spec.kind) {
    case Kind::shift:
    case Kind::send_to_all:
    case Kind::all_to_all:
      return false;
    case Kind::reduce:
    case Kind::gather:
    case Kind::scatter:
      return rank == spec.root;
    default:
      return true;
  }
}

template <typename Work>
auto with_type(DataType type, const Work& work) {
  switch (type) {
    case DataType::int32:
      return work(int32_t{});
    case DataType::int64:
      return work(int64_t{});
    case DataType::float32:
      return work(float{});
    case DataType::float64:
      break;
  }
  return work(double{});
}

}  // namespace

bool is_collective(const OperationSpec& spec) {
  return spec.kind != Kind::shift && spec.kind != Kind::send_to_all && spec.kind != Kind::run_ahead;
}

PlanKey plan_key_of(const OperationSpec& spec, int rank, int ranks) {
  PlanKey key;
  key.collective = collective_of(spec.kind);
  key.type = spec.type;
  if (reduces(spec.kind)) key.op = spec.op;
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

void fill_input(const OperationSpec& spec, size_t operation, int rank, std::span<std::byte> input) {
  with_type(spec.type, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < input.size() / sizeof(T); ++i) {
      const T element = static_cast<T>(value(operation, rank, i));
      std::memcpy(input.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
}

void fill_expected(const OperationSpec& spec, size_t operation, int rank, int ranks,
                   std::span<std::byte> output) {
  with_type(spec.type, [&](auto zero) {
    using T = decltype(zero);
    const auto put = [&](size_t i, T element) {
      std::memcpy(output.data() + i * sizeof(T), &element, sizeof(T));
    };
    if (is_collective(spec)) return expect_collective<T>(spec, operation, rank, ranks, put);
    for (size_t i = 0; i < output.size() / sizeof(T); ++i) {
      put(i, exchanged<T>(spec, operation, rank, ranks, i));
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
