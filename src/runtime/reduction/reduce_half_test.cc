// The 16-bit floating-point types: every value, and the error of long sums.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
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

// A row of values in one of the two forms.
template <DataType kType>
class Row {
 public:
  using E = reference::Element<kType>;
  Row(Form form, size_t count) : form_(form), bytes_(count * (form == Form::wide ? 4 : 2)) {}

  void set(size_t i, float value) {
    if (form_ == Form::wide) {
      std::memcpy(bytes_.data() + 4 * i, &value, 4);
    } else {
      const uint16_t stored = E::stored(value);
      std::memcpy(bytes_.data() + 2 * i, &stored, 2);
    }
  }
  float get(size_t i) const {
    float value = 0;
    uint16_t stored = 0;
    if (form_ == Form::wide) {
      std::memcpy(&value, bytes_.data() + 4 * i, 4);
    } else {
      std::memcpy(&stored, bytes_.data() + 2 * i, 2);
      value = E::number(stored);
    }
    return value;
  }
  std::byte* data() { return bytes_.data(); }
  friend bool operator==(const Row&, const Row&) = default;

 private:
  Form form_;
  std::vector<std::byte> bytes_;
};

// Returns what accumulate() must make of two numbers.
template <DataType kType>
float accumulated(const Accumulation& how, float own, float received) {
  using E = reference::Element<kType>;
  float result = how.op == ReduceOp::prod ? own * received : own + received;
  if (result != result) result = std::numeric_limits<float>::quiet_NaN();
  if (how.divisor != 1) result /= static_cast<float>(how.divisor);
  return how.result == Form::wide ? result : E::number(E::stored(result));
}

const std::vector<Accumulation> kAccumulations = [] {
  std::vector<Accumulation> all;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg}) {
    for (const Form own : {Form::half, Form::wide}) {
      for (const Form result : {Form::half, Form::wide}) {
        all.push_back({DataType::float16, op, own, result, 1});
        if (op == ReduceOp::avg && result == Form::half) {
          all.push_back({DataType::float16, op, own, result, 7});
        }
      }
    }
  }
  return all;
}();

// Returns the own operands: floats that no half is, and those at the ends of the range.
std::vector<float> wide_values(size_t count, uint64_t seed) {
  std::vector<float> values{0.0f,
                            -0.0f,
                            65519.0f,
                            65520.0f,
                            -65520.0f,
                            3.4e38f,
                            1e-40f,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::normal_distribution<float> normal;
  while (values.size() < count) values.push_back(normal(random) * 100);
  return values;
}

TYPED_TEST(ReduceHalfTest, AnAccumulationComputesInFloat32AndRoundsOnlyAHalfResult) {
  constexpr DataType kType = TypeParam::value;
  using E = reference::Element<kType>;
  constexpr size_t kCountMax = 300;
  const std::vector<float> own_values = wide_values(kCountMax, 4);
  const std::vector<uint16_t> received_bits = reference::random_values<kType>(kCountMax, 5);
  for (Accumulation how : kAccumulations) {
    how.type = kType;
    for (const ReduceKernels& kernels : reduce_kernels()) {
      for (size_t count = 0; count <= kCountMax; count = count * 5 / 4 + 1) {
        Row<kType> own(how.own, count), received(Form::half, count);
        Row<kType> result(how.result, count), wanted = result;
        for (size_t i = 0; i < count; ++i) {
          own.set(i, own_values[i]);
          received.set(i, E::number(received_bits[i]));
          wanted.set(i, accumulated<kType>(how, own.get(i), received.get(i)));
        }
        kernels.accumulate(how, result.data(), own.data(), received.data(), count);
        ASSERT_EQ(result, wanted) << kernels.target << " " << to_string(how.op) << " own "
                                  << static_cast<int>(how.own) << " result "
                                  << static_cast<int>(how.result) << " count " << count;
        if (how.own != how.result) continue;
        kernels.accumulate(how, own.data(), own.data(), received.data(), count);
        ASSERT_EQ(own, wanted) << kernels.target << " in place";
      }
    }
  }
}

TYPED_TEST(ReduceHalfTest, EveryNumberIsWidenedExactlyAndNarrowedAgain) {
  constexpr DataType kType = TypeParam::value;
  using E = reference::Element<kType>;
  const std::vector<uint16_t> all = all_values();
  for (const ReduceKernels& kernels : reduce_kernels()) {
    std::vector<float> wide(all.size());
    std::vector<uint16_t> again(all.size());
    kernels.widen(kType, reinterpret_cast<std::byte*>(wide.data()), bytes_of(all), all.size());
    kernels.narrow(kType, bytes_of(again), reinterpret_cast<const std::byte*>(wide.data()),
                   all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const float number = E::number(all[i]);
      if (number != number) {
        ASSERT_NE(E::number(again[i]), E::number(again[i])) << kernels.target << " " << i;
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(number)) << i;
      ASSERT_EQ(again[i], all[i]) << kernels.target;
    }
  }
}

TYPED_TEST(ReduceHalfTest, NarrowingRoundsToNearestEven) {
  constexpr DataType kType = TypeParam::value;
  std::vector<float> wide = wide_values(20'003, 6);
  // Half-way between two numbers, and next to that.
  for (uint32_t bits = 0x33000000; bits < 0x48000000; bits += 0x1357) {
    wide.push_back(std::bit_cast<float>(bits & ~0xfffu));
    wide.push_back(std::bit_cast<float>(bits | 0x8000u));
  }
  for (const ReduceKernels& kernels : reduce_kernels()) {
    std::vector<uint16_t> narrowed(wide.size());
    kernels.narrow(kType, bytes_of(narrowed), reinterpret_cast<const std::byte*>(wide.data()),
                   wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      if (wide[i] != wide[i]) continue;
      ASSERT_EQ(narrowed[i], reference::Element<kType>::stored(wide[i]))
          << kernels.target << " " << wide[i];
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
