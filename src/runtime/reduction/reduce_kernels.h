// The loops of reductions, compiled once for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "runtime/reduction/reduce.h"

namespace r2ccl {

// The arguments and results are those of the functions in reduce.h. All sets of kernels
// give the same bits. They require the default floating-point mode of the C library.
struct ReduceKernels {
  const char* target;  // the instruction set, as Highway names it: "AVX2"
  void (*reduce)(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
                 uint64_t count);
  void (*accumulate)(const Accumulation& how, std::byte* dst, const std::byte* own,
                     const std::byte* received, uint64_t count);
  void (*widen)(DataType type, std::byte* dst, const std::byte* src, uint64_t count);
  void (*narrow)(DataType type, std::byte* dst, const std::byte* src, uint64_t count);
  void (*divide)(DataType type, std::byte* dst, uint64_t count, int32_t divisor);
  void (*scale)(DataType type, std::byte* dst, const std::byte* src, uint64_t count,
                const Scalar& scalar);
};

// Returns the kernels that this processor can run, the fastest first. The last need nothing beyond
// the instructions that the rest of the library uses. Any thread may call it.
std::span<const ReduceKernels> reduce_kernels();

}  // namespace r2ccl
