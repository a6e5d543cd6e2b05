#include "runtime/collective/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "runtime/collective/reduce_kernels.h"

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
        const T sum = a + b;
        return sum == sum ? sum : std::numeric_limits<T>::quiet_NaN();
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

  static void expect_same(T got, T wanted, const ReduceKernels& kernels, ReduceOp op, size_t at) {
    ASSERT_EQ(std::bit_cast<Bits<T>>(got), std::bit_cast<Bits<T>>(wanted))
        << kernels.target << " " << to_string(op) << " of element " << at << ": " << got
        << " instead of " << wanted;
  }
};

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::avg};

template <typename T>
const std::byte* bytes_of(const T* values) {
  return reinterpret_cast<const std::byte*>(values);
}

template <typename T>
std::byte* bytes_of(T* values) {
  return reinterpret_cast<std::byte*>(values);
}

// Returns elements of random bits: for floating-point types NaN and denormal numbers are among
// them.
template <typename T>
std::vector<T> random_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = std::bit_cast<T>(static_cast<Bits<T>>(random()));
  return values;
}

using Types = testing::Types<int32_t, int64_t, float, double>;
TYPED_TEST_SUITE(ReduceTest, Types);

TYPED_TEST(ReduceTest, EqualsThePlainDefinitionOnAllPairsOfSpecialValues) {
  using T = TypeParam;
  const std::vector<T> values = TestFixture::special();
  std::vector<T> a, b;
  for (const T x : values) {
    a.insert(a.end(), values.size(), x);
    b.insert(b.end(), values.begin(), values.end());
  }
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const ReduceOp op : kOps) {
      // Each pair meets every lane, and the vector that is not full.
      for (size_t start = 0; start < 17; ++start) {
        const size_t count = a.size() - start;
        std::vector<T> result(count);
        kernels.reduce(TestFixture::kType, op, bytes_of(result.data()), bytes_of(a.data() + start),
                       bytes_of(b.data() + start), count);
        for (size_t i = 0; i < count; ++i) {
          TestFixture::expect_same(result[i], TestFixture::plain(op, a[start + i], b[start + i]),
                                   kernels, op, i);
        }
      }
    }
  }
}

TYPED_TEST(ReduceTest, EqualsThePlainDefinitionAtEveryLengthAndAlignmentInPlaceAndApart) {
  using T = TypeParam;
  constexpr size_t kCountMax = 67;  // beyond two turns of the widest loop
  const std::vector<T> a = random_values<T>(kCountMax, 1), b = random_values<T>(kCountMax, 2);
  const size_t room = kCountMax * sizeof(T) + 64;
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const ReduceOp op : kOps) {
      for (size_t count = 0; count <= kCountMax; ++count) {
        const size_t bytes = count * sizeof(T), shift = count % 13;
        std::vector<std::byte> from_a(room), from_b(room), apart(room, std::byte{0x5a});
        std::memcpy(from_a.data() + shift, a.data(), bytes);
        std::memcpy(from_b.data() + 2 * shift, b.data(), bytes);
        std::vector<std::byte> wanted = apart, in_place = from_a, wanted_in_place = from_a;
        for (size_t i = 0; i < count; ++i) {
          const T value = TestFixture::plain(op, a[i], b[i]);
          std::memcpy(wanted.data() + 3 * shift + i * sizeof(T), &value, sizeof(T));
          std::memcpy(wanted_in_place.data() + shift + i * sizeof(T), &value, sizeof(T));
        }
        kernels.reduce(TestFixture::kType, op, apart.data() + 3 * shift, from_a.data() + shift,
                       from_b.data() + 2 * shift, count);
        kernels.reduce(TestFixture::kType, op, in_place.data() + shift, in_place.data() + shift,
                       from_b.data() + 2 * shift, count);
        // The bytes before and behind the result are unchanged, too.
        ASSERT_EQ(apart, wanted) << kernels.target << " " << to_string(op) << " of " << count;
        ASSERT_EQ(in_place, wanted_in_place) << kernels.target << " " << to_string(op);
      }
    }
  }
}

TYPED_TEST(ReduceTest, DividesAndTruncatesIntegersTowardsZero) {
  using T = TypeParam;
  std::vector<T> values = TestFixture::special();
  const std::vector<T> random = random_values<T>(1000, 3);
  values.insert(values.end(), random.begin(), random.end());
  values.insert(values.end(), {T{-7}, T{7}});
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const int32_t divisor : {1, 2, 3, 7, 255, 65537, std::numeric_limits<int32_t>::max()}) {
      std::vector<T> divided = values;
      kernels.divide(TestFixture::kType, bytes_of(divided.data()), divided.size(), divisor);
      for (size_t i = 0; i < values.size(); ++i) {
        TestFixture::expect_same(divided[i], static_cast<T>(values[i] / static_cast<T>(divisor)),
                                 kernels, ReduceOp::avg, i);
      }
      if (divisor == 2 && std::is_integral_v<T>) {
        EXPECT_EQ(divided[divided.size() - 2], T{-3});
        EXPECT_EQ(divided.back(), T{3});
      }
    }
  }
}

// Sets a floating-point mode that changes results, and traps on the operation that makes a NaN.
class HostileFloatMode {
 public:
  HostileFloatMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
    feenableexcept(FE_INVALID);
#ifdef __SSE2__
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
#endif
  }
  ~HostileFloatMode() {
    std::fesetenv(&before_);
  }

 private:
  std::fenv_t before_;
};

TEST(Reduce, GivesTheSameBitsWhateverFloatModeItsThreadHasSetAndKeepsThatMode) {
  using L = std::numeric_limits<float>;
  const std::vector<float> a{L::denorm_min(), 1.0f, L::infinity(), 1.0f};
  const std::vector<float> b{L::denorm_min(), L::epsilon() / 4, -L::infinity(), 2.0f};
  std::vector<float> plain(a.size()), hostile(a.size());
  const auto average = [&](std::vector<float>& result) {
    reduce(DataType::float32, ReduceOp::avg, bytes_of(result.data()), bytes_of(a.data()),
           bytes_of(b.data()), a.size());
    divide(DataType::float32, bytes_of(result.data()), a.size(), 3);
  };
  average(plain);
  int rounding = 0;
  {
    const HostileFloatMode mode;
    average(hostile);
    rounding = std::fegetround();
  }
  EXPECT_EQ(std::memcmp(plain.data(), hostile.data(), a.size() * sizeof(float)), 0);
  EXPECT_EQ(plain[0], L::denorm_min());
  EXPECT_EQ(rounding, FE_UPWARD);
}

}  // namespace
}  // namespace r2ccl
