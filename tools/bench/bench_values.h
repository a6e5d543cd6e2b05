// Values for checking: every input differs by rank, element and iteration, and each rank computes
// every expected result exactly, without asking the other ranks.
//
// The value of rank r is (a + b * w[r]) * scale. a and b are pseudo-random in (element, iteration);
// the weights w are fixed and distinct, and reversed for half of the elements. So a sum is (p * a +
// b * sum(w)) * scale in O(1), and it is wrong as soon as any contribution is missing, doubled,
// stale or from another place. All sums stay below 2^24 * scale, which the type holds exactly, so
// no order of additions can round. These values serve int32, int64, float32 and float64 with sum,
// max, min and avg; PeriodicValues all other pairs of type and reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "r2ccl/r2ccl.h"

namespace r2ccl::tools {

class BenchValues {
 public:
  // The largest number of ranks for which the weights are distinct.
  static constexpr int kRanksMax = 1024;
  explicit BenchValues(int ranks);

  // Fills `buffer` with rank `rank`'s input for the reduction, or for a copy.
  void fill(void* buffer, size_t count, r2cclDataType_t type, r2cclRedOp_t redop, int rank,
            uint64_t iteration) const;

  // Returns the number of elements that differ from the reduction over all ranks, from element
  // `first` of their inputs on.
  uint64_t count_wrong_reduced(const void* buffer, size_t count, r2cclDataType_t type,
                               r2cclRedOp_t redop, uint64_t iteration, size_t first = 0) const;
  // Returns the number of elements that differ from rank `rank`'s input, from its element `first`
  // on.
  uint64_t count_wrong_copied(const void* buffer, size_t count, r2cclDataType_t type,
                              r2cclRedOp_t redop, int rank, uint64_t iteration,
                              size_t first = 0) const;

 private:
  int32_t ranks_;
  uint32_t a_mask_;  // a <= a_mask_
  std::vector<int32_t> weights_;
  int32_t turn_;  // w and turn_ - w are both weights from 1 to turn_ - 1
  int32_t weight_sum_ = 0, weight_max_ = 0, weight_min_ = 0;
};

}  // namespace r2ccl::tools
