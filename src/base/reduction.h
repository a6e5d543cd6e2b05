// The definition of every reduction: scalar, with branches, one element at a time. Simulations,
// benchmarks and tests compute with it the results that they expect. The engine itself reduces with
// the kernels of runtime/reduction/reduce.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "base/types.h"

namespace r2ccl::reference {

// The elements of a type as they are stored, and the numbers that they stand for.
template <typename StoredAs, typename NumberAs>
struct Held {
  using Stored = StoredAs;
  using Number = NumberAs;
  static Number number(Stored stored) { return std::bit_cast<Number>(stored); }
  static Stored stored(Number number) { return std::bit_cast<Stored>(number); }
};

template <DataType kType>
struct Element;
template <>
struct Element<DataType::int8> : Held<uint8_t, int8_t> {};
template <>
struct Element<DataType::uint8> : Held<uint8_t, uint8_t> {};
template <>
struct Element<DataType::int32> : Held<uint32_t, int32_t> {};
template <>
struct Element<DataType::uint32> : Held<uint32_t, uint32_t> {};
template <>
struct Element<DataType::int64> : Held<uint64_t, int64_t> {};
template <>
struct Element<DataType::uint64> : Held<uint64_t, uint64_t> {};
template <>
struct Element<DataType::float32> : Held<uint32_t, float> {};
template <>
struct Element<DataType::float64> : Held<uint64_t, double> {};
template <>
struct Element<DataType::float16> {
  using Stored = uint16_t;
  using Number = float;
  static float number(uint16_t stored) { return from_float16(stored); }
  static uint16_t stored(float number) { return to_float16(number); }
};
template <>
struct Element<DataType::bfloat16> {
  using Stored = uint16_t;
  using Number = float;
  static float number(uint16_t stored) { return from_bfloat16(stored); }
  static uint16_t stored(float number) { return to_bfloat16(number); }
};

// Calls work(Constant<type>), which knows the type at compile time.
template <DataType kType>
struct Constant {
  static constexpr DataType kValue = kType;
};

template <typename Work>
auto with_type(DataType type, const Work& work) {
  switch (type) {
    case DataType::int8:
      return work(Constant<DataType::int8>());
    case DataType::uint8:
      return work(Constant<DataType::uint8>());
    case DataType::int32:
      return work(Constant<DataType::int32>());
    case DataType::uint32:
      return work(Constant<DataType::uint32>());
    case DataType::int64:
      return work(Constant<DataType::int64>());
    case DataType::uint64:
      return work(Constant<DataType::uint64>());
    case DataType::float16:
      return work(Constant<DataType::float16>());
    case DataType::float32:
      return work(Constant<DataType::float32>());
    case DataType::float64:
      return work(Constant<DataType::float64>());
    case DataType::bfloat16:
      break;
  }
  return work(Constant<DataType::bfloat16>());
}

// Every NaN of a sum or a product is the same one.
template <DataType kType, typename Number>
typename Element<kType>::Stored with_one_nan(Number number) {
  return Element<kType>::stored(number == number ? number
                                                 : std::numeric_limits<Number>::quiet_NaN());
}

// Returns a + b.
template <DataType kType>
typename Element<kType>::Stored sum(typename Element<kType>::Stored a,
                                    typename Element<kType>::Stored b) {
  using E = Element<kType>;
  if constexpr (is_integer(kType)) {
    return static_cast<typename E::Stored>(uint64_t{a} + b);
  } else {
    return with_one_nan<kType>(static_cast<typename E::Number>(E::number(a) + E::number(b)));
  }
}

template <DataType kType>
typename Element<kType>::Stored product(typename Element<kType>::Stored a,
                                        typename Element<kType>::Stored b) {
  using E = Element<kType>;
  if constexpr (is_integer(kType)) {
    return static_cast<typename E::Stored>(uint64_t{a} * b);
  } else {
    return with_one_nan<kType>(static_cast<typename E::Number>(E::number(a) * E::number(b)));
  }
}

template <DataType kType>
typename Element<kType>::Stored extreme(bool largest, typename Element<kType>::Stored a,
                                        typename Element<kType>::Stored b) {
  using E = Element<kType>;
  const auto x = E::number(a), y = E::number(b);
  if (x != x) return a;
  if (y != y) return b;
  if (x == y) {
    if constexpr (!is_integer(kType)) return largest == std::signbit(x) ? b : a;
    return a;
  }
  return largest == (x > y) ? a : b;
}

// Returns a (op) b.
template <DataType kType>
typename Element<kType>::Stored reduced(ReduceOp op, typename Element<kType>::Stored a,
                                        typename Element<kType>::Stored b) {
  using Stored = typename Element<kType>::Stored;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premulsum:
      return sum<kType>(a, b);
    case ReduceOp::prod:
      return product<kType>(a, b);
    case ReduceOp::max:
    case ReduceOp::min:
      return extreme<kType>(op == ReduceOp::max, a, b);
    case ReduceOp::band:
      return static_cast<Stored>(a & b);
    case ReduceOp::bor:
      return static_cast<Stored>(a | b);
    case ReduceOp::bxor:
      return static_cast<Stored>(a ^ b);
  }
  return {};
}

// Returns what avg makes of a complete sum.
template <DataType kType>
typename Element<kType>::Stored divided(typename Element<kType>::Stored a, int32_t divisor) {
  using E = Element<kType>;
  using Number = typename E::Number;
  if constexpr (is_integer(kType)) {
    using Wide = std::conditional_t<std::is_signed_v<Number>, int64_t, uint64_t>;
    return E::stored(
        static_cast<Number>(static_cast<Wide>(E::number(a)) / static_cast<Wide>(divisor)));
  } else {
    return E::stored(E::number(a) / static_cast<Number>(divisor));
  }
}

// Returns the scalar of a pre-multiplied sum.
template <typename Stored>
Scalar scalar_of(Stored value) {
  Scalar scalar{};
  std::memcpy(scalar.data(), &value, sizeof(value));
  return scalar;
}

}  // namespace r2ccl::reference
