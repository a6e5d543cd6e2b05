// The arithmetic of NCCL's reductions on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "work.h"

namespace r2ccl::emulated {

size_t element_bytes(DataType type);

class Reduction {
 public:
  // For collectives that only move bytes.
  Reduction() = default;
  // `argument` is NCCL's: a mask for the least or the greatest, a factor, or a divisor.
  Reduction(Operator op, DataType type, uint64_t argument)
      : op_(op), type_(type), argument_(argument) {}

  // Sets each element of `target` to that of `a` combined with that of `b`. They may be the same.
  void combine(char* target, const char* a, const char* b, int64_t count) const;
  // Applies the factor of a pre-multiplied sum to a rank's own elements.
  void prepare(char* elements, int64_t count) const;
  bool prepares() const { return op_ == Operator::kPreMulSum; }
  // Applies the divisor of an average of integers to the elements of the sum.
  void finish(char* elements, int64_t count) const;

 private:
  Operator op_ = Operator::kSum;
  DataType type_ = DataType::kUint8;
  uint64_t argument_ = 0;
};

}  // namespace r2ccl::emulated
