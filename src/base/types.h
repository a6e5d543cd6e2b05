// Element types and reductions: the engine's names for the API's enums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace r2ccl {

// The API's numbers.
enum class DataType : uint8_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9
};

// The first five have the API's numbers. Plan hashes contain these numbers.
enum class ReduceOp : uint8_t {
  sum = 0,
  prod = 1,
  max = 2,
  min = 3,
  avg = 4,
  band = 5,
  bor = 6,
  bxor = 7,
  premulsum = 8  // each rank multiplies its elements by its own scalar; the products are added
};

inline constexpr std::array kDataTypes = {
    DataType::int8,   DataType::uint8,   DataType::int32,   DataType::uint32,  DataType::int64,
    DataType::uint64, DataType::float16, DataType::float32, DataType::float64, DataType::bfloat16};
inline constexpr std::array kReduceOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max,
                                          ReduceOp::min, ReduceOp::avg,  ReduceOp::band,
                                          ReduceOp::bor, ReduceOp::bxor, ReduceOp::premulsum};

// The bytes of one element, of any type; the others are not used.
using Scalar = std::array<std::byte, 8>;

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  Scalar scalar{};  // premulsum
};

constexpr size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::uint64:
    case DataType::float64:
      return 8;
  }
  R2CCL_CHECK(false);
  return 0;
}

constexpr bool is_integer(DataType type) {
  return type <= DataType::uint64;
}

constexpr bool is_half(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16;
}

constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

// Returns whether the reduction is defined for the type. Bitwise reductions need integers.
constexpr bool supports(DataType type, ReduceOp op) {
  return is_integer(type) || !is_bitwise(op);
}

// Returns whether a rank may hold a partial result of elements of the type in float32, and round it
// later. Maximum and minimum choose one of their operands, so they never round.
constexpr bool has_wide_form(DataType type, ReduceOp op) {
  return is_half(type) && op != ReduceOp::max && op != ReduceOp::min && !is_bitwise(op);
}

constexpr const char* to_string(DataType type) {
  switch (type) {
    case DataType::int8:
      return "int8";
    case DataType::uint8:
      return "uint8";
    case DataType::int32:
      return "int32";
    case DataType::uint32:
      return "uint32";
    case DataType::int64:
      return "int64";
    case DataType::uint64:
      return "uint64";
    case DataType::float16:
      return "float16";
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::bfloat16:
      return "bfloat16";
  }
  return "unknown";
}

constexpr const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::band:
      return "band";
    case ReduceOp::bor:
      return "bor";
    case ReduceOp::bxor:
      return "bxor";
    case ReduceOp::premulsum:
      return "premulsum";
  }
  return "unknown";
}

}  // namespace r2ccl
