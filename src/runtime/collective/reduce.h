// The arithmetic of reductions, element by element, with the fastest kernels of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace r2ccl {

// Computes dst[i] = a[i] (op) b[i] for i < count. dst may be a itself; nothing else may overlap. No
// alignment is needed.
//  * Integer sums wrap. A floating-point sum that is no number is the C library's quiet NaN.
//  * max and min: a NaN wins, a's before b's, with its bits; -0 is less than +0.
//  * avg adds: divide() is applied once, to the complete sum.
// The bits of the result depend on nothing else: not on the processor, nor on the rounding,
// flushing of denormal numbers or traps that the calling thread has set.
void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
            uint64_t count);

// Computes dst[i] = dst[i] / divisor. Integers truncate towards zero.
void divide(DataType type, std::byte* dst, uint64_t count, int32_t divisor);

}  // namespace r2ccl
