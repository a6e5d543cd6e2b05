// The compiler vectorises every loop here (checked with -fopt-info-vec): no branches, no aliasing,
// loads and stores by memcpy because neither the user's alignment nor the type of staging memory is
// known. Sums of floats are then bound by memory. Selection works on bit patterns and exact
// comparisons, so its result does not depend on how the loop was vectorised.
#include "runtime/collective/reduce.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace r2ccl {
namespace {

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <typename T>
T load(const std::byte* from, uint64_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, uint64_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
    } else {
      return a + b;
    }
  }
};

// Returns `a` where it wins, else `b`. Where both are equal it returns `equal_bits`, which picks
// the sign of zero: the only bit in which equal values can differ. A NaN in `a` wins, then one in
// `b`.
template <typename T>
T select(T a, T b, bool a_wins, Bits<T> equal_bits) {
  const T unequal = a_wins ? a : (a != a ? a : b);
  return a == b ? std::bit_cast<T>(equal_bits) : unequal;
}

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a > b ? a : b;
    } else {
      // Prefers +0 to -0, and drops the sign.
      return select(a, b, a > b, std::bit_cast<Bits<T>>(a) & std::bit_cast<Bits<T>>(b));
    }
  }
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? a : b;
    } else {
      return select(a, b, a < b, std::bit_cast<Bits<T>>(a) | std::bit_cast<Bits<T>>(b));
    }
  }
};

template <typename Op, typename T>
void into_other(std::byte* __restrict dst, const std::byte* __restrict a,
                const std::byte* __restrict b, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) store(dst, i, Op::apply(load<T>(a, i), load<T>(b, i)));
}

template <typename Op, typename T>
void into_first(std::byte* __restrict dst, const std::byte* __restrict b, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) store(dst, i, Op::apply(load<T>(dst, i), load<T>(b, i)));
}

template <typename Op, typename T>
void reduce_typed(std::byte* dst, const std::byte* a, const std::byte* b, uint64_t count) {
  if (dst == a) {
    into_first<Op, T>(dst, b, count);
  } else {
    into_other<Op, T>(dst, a, b, count);
  }
}

template <typename T>
void reduce_with(ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
                 uint64_t count) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return reduce_typed<Sum, T>(dst, a, b, count);
    case ReduceOp::max:
      return reduce_typed<Max, T>(dst, a, b, count);
    case ReduceOp::min:
      return reduce_typed<Min, T>(dst, a, b, count);
  }
  R2CCL_CHECK(false);
}

template <typename T>
void divide_typed(std::byte* dst, uint64_t count, int32_t divisor) {
  for (uint64_t i = 0; i < count; ++i) {
    store(dst, i, static_cast<T>(load<T>(dst, i) / static_cast<T>(divisor)));
  }
}

}  // namespace

void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
            uint64_t count) {
  switch (type) {
    case DataType::int32:
      return reduce_with<int32_t>(op, dst, a, b, count);
    case DataType::int64:
      return reduce_with<int64_t>(op, dst, a, b, count);
    case DataType::float32:
      return reduce_with<float>(op, dst, a, b, count);
    case DataType::float64:
      return reduce_with<double>(op, dst, a, b, count);
  }
  R2CCL_CHECK(false);
}

void divide(DataType type, std::byte* dst, uint64_t count, int32_t divisor) {
  switch (type) {
    case DataType::int32:
      return divide_typed<int32_t>(dst, count, divisor);
    case DataType::int64:
      return divide_typed<int64_t>(dst, count, divisor);
    case DataType::float32:
      return divide_typed<float>(dst, count, divisor);
    case DataType::float64:
      return divide_typed<double>(dst, count, divisor);
  }
  R2CCL_CHECK(false);
}

}  // namespace r2ccl
