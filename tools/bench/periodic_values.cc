#include "tools/bench/periodic_values.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/hash.h"
#include "base/reduction.h"

namespace r2ccl::tools {
namespace {

using reference::Element;
using reference::with_type;

constexpr size_t kPeriod = 4099;

// Returns the largest whole number up to which the type holds all, or 2^24.
constexpr uint64_t sum_limit(DataType type) {
  return type == DataType::float16 ? 1 << 11 : type == DataType::bfloat16 ? 1 << 8 : 1 << 24;
}

// Returns random bits from which the reduction of many ranks is no constant. Few bits are 0 where
// all must be 1, few are 1 where one suffices, and a product of odd numbers depends on every bit.
uint64_t bits_for(ReduceOp op, uint64_t chosen) {
  const uint64_t second = r2ccl::hash_of({chosen}), third = r2ccl::hash_of({second});
  switch (op) {
    case ReduceOp::prod:
      return chosen | 1;
    case ReduceOp::band:
      return chosen | second | third;
    case ReduceOp::bor:
      return chosen & second & third;
    default:
      return chosen;
  }
}

// Returns the input of the rank at the place `at` of the period.
template <DataType kType>
typename Element<kType>::Stored input(ReduceOp op, int ranks, int rank, size_t at,
                                      uint64_t iteration) {
  using E = Element<kType>;
  const uint64_t chosen = r2ccl::hash_of({iteration, static_cast<uint64_t>(rank), at});
  if constexpr (is_integer(kType)) {
    return static_cast<typename E::Stored>(bits_for(op, chosen));
  } else {
    // Each place of the period has the ranks in another order.
    const uint64_t turn = (static_cast<uint64_t>(rank) + at) % static_cast<uint64_t>(ranks);
    if (op == ReduceOp::prod) {
      static constexpr float kFactors[] = {1, -1, 2, 0.5};
      return E::stored(static_cast<typename E::Number>(kFactors[chosen % (turn < 8 ? 4 : 2)]));
    }
    constexpr uint64_t kLimit = sum_limit(kType);
    const uint64_t adding = std::min(static_cast<uint64_t>(ranks), kLimit / 2);
    const uint64_t value = turn < adding ? chosen % (kLimit / adding) + 1 : 0;
    return E::stored(static_cast<typename E::Number>(value));
  }
}

template <typename Stored>
void put(std::span<std::byte> memory, size_t at, Stored stored) {
  std::memcpy(memory.data() + at * sizeof(stored), &stored, sizeof(stored));
}

// Returns the number of elements of `buffer` that differ from the period, from its place `at` on.
uint64_t count_wrong(const std::byte* buffer, size_t bytes, std::span<const std::byte> period,
                     size_t at, size_t size) {
  uint64_t wrong = 0;
  while (bytes > 0) {
    const size_t part = std::min(bytes, period.size() - at);
    if (std::memcmp(buffer, period.data() + at, part) != 0) {
      for (size_t i = 0; i < part; i += size) {
        wrong += std::memcmp(buffer + i, period.data() + at + i, size) == 0 ? 0 : 1;
      }
    }
    buffer += part;
    bytes -= part;
    at = 0;
  }
  return wrong;
}

}  // namespace

std::vector<std::byte> PeriodicValues::period_of(int rank, uint64_t iteration) const {
  std::vector<std::byte> period(kPeriod * size_of(type_));
  with_type(type_, [&](auto type) {
    for (size_t at = 0; at < kPeriod; ++at) {
      put(period, at, input<decltype(type)::kValue>(op_, ranks_, rank, at, iteration));
    }
  });
  return period;
}

std::vector<std::byte> PeriodicValues::reduced_period(uint64_t iteration) const {
  std::vector<std::byte> period(kPeriod * size_of(type_));
  with_type(type_, [&](auto type) {
    constexpr DataType kType = decltype(type)::kValue;
    for (size_t at = 0; at < kPeriod; ++at) {
      auto result = input<kType>(op_, ranks_, 0, at, iteration);
      for (int rank = 1; rank < ranks_; ++rank) {
        const auto next = input<kType>(op_, ranks_, rank, at, iteration);
        result = reference::reduced<kType>(op_, result, next);
      }
      if (op_ == ReduceOp::avg) result = reference::divided<kType>(result, ranks_);
      put(period, at, result);
    }
  });
  return period;
}

void PeriodicValues::fill(void* buffer, size_t count, int rank, uint64_t iteration) const {
  const std::vector<std::byte> period = period_of(rank, iteration);
  auto* to = static_cast<std::byte*>(buffer);
  for (size_t left = count * size_of(type_); left > 0;) {
    const size_t part = std::min(left, period.size());
    std::memcpy(to, period.data(), part);
    to += part;
    left -= part;
  }
}

uint64_t PeriodicValues::count_wrong_reduced(const void* buffer, size_t count, uint64_t iteration,
                                             size_t first) const {
  return count_wrong(static_cast<const std::byte*>(buffer), count * size_of(type_),
                     reduced_period(iteration), first % kPeriod * size_of(type_), size_of(type_));
}

uint64_t PeriodicValues::count_wrong_copied(const void* buffer, size_t count, int rank,
                                            uint64_t iteration, size_t first) const {
  return count_wrong(static_cast<const std::byte*>(buffer), count * size_of(type_),
                     period_of(rank, iteration), first % kPeriod * size_of(type_), size_of(type_));
}

}  // namespace r2ccl::tools
