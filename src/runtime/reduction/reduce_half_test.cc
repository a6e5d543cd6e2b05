// The 16-bit floating-point types: every value, and the error of long sums.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/reduction/reduce.h"
#include "runtime/reduction/reduce_kernels.h"
#include "runtime/reduction/reduce_values_test.h"

namespace r2ccl {
namespace {

const std::byte* bytes_of(const std::vector<uint16_t>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

std::byte* bytes_of(std::vector<uint16_t>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

std::vector<uint16_t> all_values() {
  std::vector<uint16_t> values(65536);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  return values;
}

template <typename TypeConstant>
class ReduceHalfTest : public testing::Test {};
using Halves = testing::Types<std::integral_constant<DataType, DataType::float16>,
                              std::integral_constant<DataType, DataType::bfloat16>>;
TYPED_TEST_SUITE(ReduceHalfTest, Halves);

TYPED_TEST(ReduceHalfTest, EveryValueMeetsEverySpecialValueAndSomeOthersInEveryOperation) {
  constexpr DataType kType = TypeParam::value;
  const std::vector<uint16_t> all = all_values();
  std::vector<uint16_t> others = reference::special<kType>();
  const std::vector<uint16_t> random = reference::random_values<kType>(20, 1);
  others.insert(others.end(), random.begin(), random.end());
  for (const uint16_t other : others) {
    const std::vector<uint16_t> b(all.size(), other);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
      std::vector<uint16_t> wanted(all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        wanted[i] = reference::reduced<kType>(op, all[i], other);
      }
      for (const ReduceKernels& kernels : reduce_kernels()) {
        std::vector<uint16_t> result(all.size());
        kernels.reduce(kType, op, bytes_of(result), bytes_of(all), bytes_of(b), all.size());
        ASSERT_EQ(result, wanted) << kernels.target << " " << to_string(op) << " with " << other;
      }
    }
  }
}

// Dividing rounds every pattern of bits.
TYPED_TEST(ReduceHalfTest, EveryValueIsDividedAsFloat32AndRounded) {
  constexpr DataType kType = TypeParam::value;
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (int32_t divisor = 1; divisor <= 300; divisor = divisor * 4 / 3 + 1) {
      std::vector<uint16_t> result = all_values();
      kernels.divide(kType, bytes_of(result), result.size(), divisor);
      for (size_t i = 0; i < result.size(); ++i) {
        ASSERT_EQ(result[i], reference::divided<kType>(static_cast<uint16_t>(i), divisor))
            << kernels.target << " " << i << " / " << divisor;
      }
    }
  }
}

// A sum of two values is the value next to the exact sum: rounding to float32 before does no harm.
TYPED_TEST(ReduceHalfTest, ASumOfTwoIsRoundedOnce) {
  constexpr DataType kType = TypeParam::value;
  using E = reference::Element<kType>;
  const std::vector<uint16_t> a = reference::random_values<kType>(100'000, 2);
  const std::vector<uint16_t> b = reference::random_values<kType>(100'000, 3);
  std::vector<uint16_t> result(a.size());
  reduce(kType, ReduceOp::sum, bytes_of(result), bytes_of(a), bytes_of(b), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double exact = double{E::number(a[i])} + double{E::number(b[i])};
    const double got = E::number(result[i]);
    if (!std::isfinite(exact) || !std::isfinite(got)) continue;
    const double error = std::abs(got - exact);
    for (const int step : {-1, 1}) {
      const double neighbour = E::number(static_cast<uint16_t>(result[i] + step));
      if (std::isfinite(neighbour)) {
        ASSERT_LE(error, std::abs(neighbour - exact));
      }
    }
  }
}

// Returns half the distance from 1 to the next number: the largest relative error of a rounding.
template <typename E>
double unit_roundoff() {
  const uint16_t one = E::stored(1.0f);
  return (double{E::number(static_cast<uint16_t>(one + 1))} - 1.0) / 2;
}

// Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic"
// (2013): a sum of p terms in any order has an error of at most (p - 1) u sum |x|, without terms of
// higher order.
TYPED_TEST(ReduceHalfTest, AChainOfSumsStaysWithinTheBoundOfItsRoundings) {
  constexpr DataType kType = TypeParam::value;
  using E = reference::Element<kType>;
  constexpr size_t kCount = 2000;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const int ranks : {2, 3, 8, 33, 256}) {
    std::vector<uint16_t> sum(kCount);
    std::vector<double> exact(kCount), magnitude(kCount);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<uint16_t> input(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        input[i] = E::stored(normal(random));
        exact[i] += E::number(input[i]);
        magnitude[i] += std::abs(E::number(input[i]));
      }
      if (rank == 0) {
        sum = input;
      } else {
        reduce(kType, ReduceOp::sum, bytes_of(sum), bytes_of(sum), bytes_of(input), kCount);
      }
    }
    double largest = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double bound = (ranks - 1) * unit_roundoff<E>() * magnitude[i];
      largest = std::max(largest, std::abs(E::number(sum[i]) - exact[i]) / bound);
    }
    EXPECT_LE(largest, 1.0) << ranks;
    if (ranks == 2) {
      EXPECT_GT(largest, 0.5);  // the bound is not much larger than needed
    }
  }
}

}  // namespace
}  // namespace r2ccl
