#include "runtime/collective/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace r2ccl {
namespace {

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <typename T>
class ReduceTest : public testing::Test {
 public:
  static constexpr DataType kType = std::is_same_v<T, int32_t>   ? DataType::int32
                                    : std::is_same_v<T, int64_t> ? DataType::int64
                                    : std::is_same_v<T, float>   ? DataType::float32
                                                                 : DataType::float64;

  static std::vector<T> special() {
    using L = std::numeric_limits<T>;
    std::vector<T> values{T{0}, T{1}, T{-1}, T{7}, L::max(), L::lowest(), L::min()};
    if constexpr (std::is_floating_point_v<T>) {
      const T negative_nan = std::bit_cast<T>(static_cast<Bits<T>>(
          std::bit_cast<Bits<T>>(L::quiet_NaN()) | Bits<T>{1} << (sizeof(T) * 8 - 1)));
      values.insert(values.end(), {-T{0}, L::infinity(), -L::infinity(), L::quiet_NaN(),
                                   negative_nan, L::denorm_min(), -L::denorm_min()});
    }
    return values;
  }

  // The definition, with branches and one element at a time.
  static T plain(ReduceOp op, T a, T b) {
    if (op == ReduceOp::sum || op == ReduceOp::avg) {
      if constexpr (std::is_integral_v<T>) {
        T wrapped;
        if (__builtin_add_overflow(a, b, &wrapped)) return wrapped;
        return wrapped;
      } else {
        return a + b;
      }
    }
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) {
      if constexpr (std::is_floating_point_v<T>) {
        return (op == ReduceOp::max) == std::signbit(a) ? b : a;
      }
      return a;
    }
    return (op == ReduceOp::max) == (a > b) ? a : b;
  }

  // Compares the bits. For a NaN that arithmetic made, checks only that it is one.
  static bool same(ReduceOp op, T a, T b) {
    if ((op == ReduceOp::sum || op == ReduceOp::avg) && a != a && b != b) return true;
    return std::bit_cast<Bits<T>>(a) == std::bit_cast<Bits<T>>(b);
  }
};

using Types = testing::Types<int32_t, int64_t, float, double>;
TYPED_TEST_SUITE(ReduceTest, Types);

TYPED_TEST(ReduceTest, EqualsThePlainDefinitionOnAllPairsOfSpecialValues) {
  using T = TypeParam;
  const std::vector<T> values = TestFixture::special();
  std::vector<T> a, b;
  for (const T x : values) {
    for (const T y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::avg}) {
    // Covers every start and length, so that each pair meets the vector body and the scalar rest.
    for (size_t start = 0; start < 9; ++start) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, a.size() - start}) {
        const auto* from_a = reinterpret_cast<const std::byte*>(a.data() + start);
        const auto* from_b = reinterpret_cast<const std::byte*>(b.data() + start);
        std::vector<T> apart(count), in_place(a.begin() + static_cast<ptrdiff_t>(start), a.end());
        reduce(TestFixture::kType, op, reinterpret_cast<std::byte*>(apart.data()), from_a, from_b,
               count);
        auto* both = reinterpret_cast<std::byte*>(in_place.data());
        reduce(TestFixture::kType, op, both, both, from_b, count);
        for (size_t i = 0; i < count; ++i) {
          const T wanted = TestFixture::plain(op, a[start + i], b[start + i]);
          ASSERT_TRUE(TestFixture::same(op, apart[i], wanted))
              << a[start + i] << " " << b[start + i];
          ASSERT_TRUE(TestFixture::same(op, in_place[i], wanted));
        }
      }
    }
  }
}

TYPED_TEST(ReduceTest, DoesNotNeedAlignedBuffers) {
  using T = TypeParam;
  constexpr size_t kCount = 100;
  std::vector<std::byte> a(kCount * sizeof(T) + 1), b(a.size()), sum(a.size());
  for (size_t i = 0; i < kCount; ++i) {
    const T x = static_cast<T>(i), y = static_cast<T>(2 * i);
    std::memcpy(a.data() + 1 + i * sizeof(T), &x, sizeof(T));
    std::memcpy(b.data() + 1 + i * sizeof(T), &y, sizeof(T));
  }
  reduce(TestFixture::kType, ReduceOp::sum, sum.data() + 1, a.data() + 1, b.data() + 1, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    T got;
    std::memcpy(&got, sum.data() + 1 + i * sizeof(T), sizeof(T));
    ASSERT_EQ(got, static_cast<T>(3 * i));
  }
}

TYPED_TEST(ReduceTest, DividesAndTruncatesIntegersTowardsZero) {
  using T = TypeParam;
  std::vector<T> values{T{7}, T{-7}, T{0}, std::numeric_limits<T>::lowest()};
  const std::vector<T> before = values;
  divide(TestFixture::kType, reinterpret_cast<std::byte*>(values.data()), values.size(), 2);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], before[i] / T{2});
  if constexpr (std::is_integral_v<T>) {
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], -3);
  }
}

}  // namespace
}  // namespace r2ccl
