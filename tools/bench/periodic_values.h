// Values for checking, for every type and reduction. A rank's elements repeat with a period that is
// a prime number, so every expected result is computed once for each element of one period, in the
// plainest way. Elements that are moved by a multiple of the period would not be noticed; no
// segment, chunk or vector has such a length.
//
// All results are exact. Where many ranks add 16-bit floating-point numbers, each element is 0 on
// most ranks, on others for each element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace r2ccl::tools {

class PeriodicValues {
 public:
  // Requires supports(type, op).
  PeriodicValues(int ranks, DataType type, ReduceOp op) : ranks_(ranks), type_(type), op_(op) {}

  // Fills `buffer` with the rank's input.
  void fill(void* buffer, size_t count, int rank, uint64_t iteration) const;
  // Returns the number of elements that differ from the reduction over all ranks, from element
  // `first` of their inputs on.
  uint64_t count_wrong_reduced(const void* buffer, size_t count, uint64_t iteration,
                               size_t first = 0) const;
  // Returns the number of elements that differ from the rank's input, from its element `first` on.
  uint64_t count_wrong_copied(const void* buffer, size_t count, int rank, uint64_t iteration,
                              size_t first = 0) const;

 private:
  std::vector<std::byte> period_of(int rank, uint64_t iteration) const;
  std::vector<std::byte> reduced_period(uint64_t iteration) const;

  const int ranks_;
  const DataType type_;
  const ReduceOp op_;
};

}  // namespace r2ccl::tools
