// Element types and reductions: the engine's names for the API's enums (same numbers).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace r2ccl {

enum class DataType : uint8_t { int32 = 2, int64 = 4, float32 = 7, float64 = 8 };
enum class ReduceOp : uint8_t { sum = 0, max = 2, min = 3, avg = 4 };

constexpr size_t size_of(DataType type) {
  switch (type) {
    case DataType::int32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::float64:
      return 8;
  }
  R2CCL_CHECK(false);
  return 0;
}

constexpr const char* to_string(DataType type) {
  switch (type) {
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
  }
  return "unknown";
}

constexpr const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::avg:
      return "avg";
  }
  return "unknown";
}

}  // namespace r2ccl
