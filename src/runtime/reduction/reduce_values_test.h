// Values for tests of reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/reduction.h"

namespace r2ccl::reference {

// The values that a kernel can get wrong, and the smallest and largest ones.
template <DataType kType>
std::vector<typename Element<kType>::Stored> special() {
  using E = Element<kType>;
  using Stored = typename E::Stored;
  using L = std::numeric_limits<typename E::Number>;
  std::vector<Stored> values;
  for (const int small : {0, 1, -1, 2, 3, 7, -7, 100}) {
    values.push_back(E::stored(static_cast<typename E::Number>(small)));
  }
  if constexpr (!L::is_integer) {
    constexpr int kBits = static_cast<int>(sizeof(Stored)) * 8;
    const Stored infinity = E::stored(L::infinity());
    // Both ends of the normal and of the subnormal numbers, infinity, and quiet and signalling NaN.
    const auto step = static_cast<Stored>(infinity & (~infinity + 1));  // the lowest exponent
    for (const int offset : {-1, 0, 1}) {
      for (const Stored base : {Stored{1}, step, infinity, E::stored(L::quiet_NaN())}) {
        const auto bits = static_cast<Stored>(base + static_cast<Stored>(offset));
        values.push_back(bits);
        values.push_back(static_cast<Stored>(bits | Stored{1} << (kBits - 1)));
      }
    }
  } else {
    for (const Stored bits : {E::stored(L::max()), E::stored(L::lowest()), Stored{128}}) {
      values.push_back(bits);
    }
  }
  return values;
}

// Returns elements of random bits: for floating-point types NaN and denormal numbers are among
// them.
template <DataType kType>
std::vector<typename Element<kType>::Stored> random_values(size_t count, uint64_t seed) {
  using Stored = typename Element<kType>::Stored;
  std::mt19937_64 random(seed);
  std::vector<Stored> values(count);
  for (Stored& value : values) value = static_cast<Stored>(random());
  return values;
}

}  // namespace r2ccl::reference
