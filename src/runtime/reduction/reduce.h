// The arithmetic of reductions, element by element, with the fastest kernels of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace r2ccl {

// Computes dst[i] = a[i] (op) b[i] for i < count. Requires supports(type, op). dst may be a or b
// itself; nothing else may overlap. No alignment is needed.
//  * Integer sums and products wrap. A floating-point sum or product that is no number is the C
//    library's quiet NaN.
//  * float16 and bfloat16 are added and multiplied in float32. Each result is rounded to nearest
//    even to the 16-bit type; a value beyond its range becomes infinite.
//  * max and min: a NaN wins, a's before b's, with its bits; -0 is less than +0.
//  * avg adds: divide() is applied once, to the complete sum.
//  * premulsum adds: scale() is applied before, to each rank's elements.
// The bits of the result depend on nothing else: not on the processor, nor on the rounding,
// flushing of denormal numbers or traps that the calling thread has set.
void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
            uint64_t count);

// A row of elements of a 16-bit type: as such, or in the float32 that each of them stands for.
enum class Form : uint8_t { half, wide };

// One step of a sum or product of 16-bit elements that is rounded only where its result is not
// wide.
struct Accumulation {
  DataType type = DataType::float16;  // of the received elements
  ReduceOp op = ReduceOp::sum;
  Form own = Form::half;
  Form result = Form::half;
  int32_t divisor = 1;  // of the result, before it is rounded; other than 1 only for a half result
};

// Computes dst[i] = (own[i] (op) received[i]) / divisor in float32, for i < count. Requires
// has_wide_form(type, op). A half result is rounded once, with the rules of reduce(). A result that
// is no number is the same quiet NaN in both forms. dst may be `own`, or `received`, if it
// has the same form; nothing else may overlap. No alignment is needed.
void accumulate(const Accumulation& how, std::byte* dst, const std::byte* own,
                const std::byte* received, uint64_t count);

// Converts elements of a 16-bit type to float32, and back with one rounding. Nothing may overlap.
void widen(DataType type, std::byte* dst, const std::byte* src, uint64_t count);
void narrow(DataType type, std::byte* dst, const std::byte* src, uint64_t count);

// Computes dst[i] = dst[i] / divisor; the divisor is positive. Integers truncate towards zero. The
// 16-bit types divide in float32 and round to nearest even.
void divide(DataType type, std::byte* dst, uint64_t count, int32_t divisor);

// Computes dst[i] = src[i] * scalar, with the rules of a product. dst may be src itself.
void scale(DataType type, std::byte* dst, const std::byte* src, uint64_t count,
           const Scalar& scalar);

}  // namespace r2ccl
