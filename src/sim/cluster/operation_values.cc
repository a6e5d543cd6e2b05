#include "sim/cluster/operation_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

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
T expected(const OperationSpec& spec, size_t operation, int rank, int ranks, size_t element) {
  switch (spec.kind) {
    case Kind::all_reduce: {
      const T sum = static_cast<T>(reduced(spec.op, operation, ranks, element));
      return spec.op == ReduceOp::avg ? static_cast<T>(sum / static_cast<T>(ranks)) : sum;
    }
    case Kind::broadcast:
    case Kind::run_ahead:
      return static_cast<T>(value(operation, spec.root, element));
    case Kind::barrier:
      return T{};
    case Kind::shift:
      return static_cast<T>(value(operation, (rank + ranks - 1) % ranks, element));
    case Kind::all_to_all: {
      // Part `from` of the output is the part of that rank's input for this rank.
      const auto from = static_cast<int>(element / spec.count);
      const size_t there = static_cast<size_t>(rank) * spec.count + element % spec.count;
      return static_cast<T>(value(operation, from, there));
    }
  }
  return T{};
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

size_t input_count(const OperationSpec& spec, int ranks) {
  return spec.kind == Kind::all_to_all ? spec.count * static_cast<size_t>(ranks) : spec.count;
}

void fill_input(const OperationSpec& spec, size_t operation, int rank, int ranks,
                std::span<std::byte> input) {
  with_type(spec.type, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < input_count(spec, ranks); ++i) {
      const T element = static_cast<T>(value(operation, rank, i));
      std::memcpy(input.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
}

void fill_expected(const OperationSpec& spec, size_t operation, int rank, int ranks,
                   std::span<std::byte> output) {
  with_type(spec.type, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < input_count(spec, ranks); ++i) {
      const T element = expected<T>(spec, operation, rank, ranks, i);
      std::memcpy(output.data() + i * sizeof(T), &element, sizeof(T));
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
