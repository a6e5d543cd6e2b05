#include "runtime/reduction/reduce.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <limits>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "runtime/reduction/reduce_kernels.h"
#include "runtime/reduction/reduce_values_test.h"

namespace r2ccl {
namespace {

using reference::random_values;
using reference::special;

template <typename T>
const std::byte* bytes_of(const T* values) {
  return reinterpret_cast<const std::byte*>(values);
}

template <typename T>
std::byte* bytes_of(T* values) {
  return reinterpret_cast<std::byte*>(values);
}

std::vector<ReduceOp> ops_of(DataType type) {
  std::vector<ReduceOp> ops;
  for (const ReduceOp op : kReduceOps) {
    if (supports(type, op)) ops.push_back(op);
  }
  return ops;
}

template <DataType kType>
using StoredAs = typename reference::Element<kType>::Stored;

// `a`, and `b` or nothing, are the operands, for the message.
template <DataType kType>
void expect_same(StoredAs<kType> got, StoredAs<kType> wanted, const ReduceKernels& kernels,
                 const std::string& what, StoredAs<kType> a, StoredAs<kType> b = {}) {
  using E = reference::Element<kType>;
  ASSERT_EQ(got, wanted) << kernels.target << " " << to_string(kType) << " " << what << " of "
                         << +E::number(a) << " and " << +E::number(b) << ": " << +E::number(got)
                         << " instead of " << +E::number(wanted);
}

template <typename TypeConstant>
class ReduceTest : public testing::Test {};

template <DataType kType>
using Constant = std::integral_constant<DataType, kType>;
using Types = testing::Types<Constant<DataType::int8>, Constant<DataType::uint8>,
                             Constant<DataType::int32>, Constant<DataType::uint32>,
                             Constant<DataType::int64>, Constant<DataType::uint64>,
                             Constant<DataType::float16>, Constant<DataType::float32>,
                             Constant<DataType::float64>, Constant<DataType::bfloat16>>;
TYPED_TEST_SUITE(ReduceTest, Types);

TYPED_TEST(ReduceTest, EqualsThePlainDefinitionOnAllPairsOfSpecialValues) {
  constexpr DataType kType = TypeParam::value;
  using T = StoredAs<kType>;
  const std::vector<T> values = special<kType>();
  std::vector<T> a, b;
  for (const T x : values) {
    a.insert(a.end(), values.size(), x);
    b.insert(b.end(), values.begin(), values.end());
  }
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const ReduceOp op : ops_of(kType)) {
      // Each pair meets every lane, and the vector that is not full.
      for (size_t start = 0; start < 17; ++start) {
        const size_t count = a.size() - start;
        std::vector<T> result(count);
        kernels.reduce(kType, op, bytes_of(result.data()), bytes_of(a.data() + start),
                       bytes_of(b.data() + start), count);
        for (size_t i = 0; i < count; ++i) {
          const T x = a[start + i], y = b[start + i];
          expect_same<kType>(result[i], reference::reduced<kType>(op, x, y), kernels, to_string(op),
                             x, y);
        }
      }
    }
  }
}

TYPED_TEST(ReduceTest, EqualsThePlainDefinitionAtEveryLengthAndAlignmentInPlaceAndApart) {
  constexpr DataType kType = TypeParam::value;
  using T = StoredAs<kType>;
  constexpr size_t kCountMax = 64 / sizeof(T) * 4 + 3;  // beyond two turns of the widest loop
  const std::vector<T> a = random_values<kType>(kCountMax, 1);
  const std::vector<T> b = random_values<kType>(kCountMax, 2);
  const size_t room = kCountMax * sizeof(T) + 64;
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const ReduceOp op : ops_of(kType)) {
      for (size_t count = 0; count <= kCountMax; ++count) {
        const size_t bytes = count * sizeof(T), shift = count % 13;
        std::vector<std::byte> from_a(room), from_b(room), apart(room, std::byte{0x5a});
        std::memcpy(from_a.data() + shift, a.data(), bytes);
        std::memcpy(from_b.data() + 2 * shift, b.data(), bytes);
        std::vector<std::byte> wanted = apart, in_place = from_a, wanted_in_place = from_a;
        for (size_t i = 0; i < count; ++i) {
          const T value = reference::reduced<kType>(op, a[i], b[i]);
          std::memcpy(wanted.data() + 3 * shift + i * sizeof(T), &value, sizeof(T));
          std::memcpy(wanted_in_place.data() + shift + i * sizeof(T), &value, sizeof(T));
        }
        kernels.reduce(kType, op, apart.data() + 3 * shift, from_a.data() + shift,
                       from_b.data() + 2 * shift, count);
        kernels.reduce(kType, op, in_place.data() + shift, in_place.data() + shift,
                       from_b.data() + 2 * shift, count);
        // The bytes before and behind the result are unchanged, too.
        ASSERT_EQ(apart, wanted) << kernels.target << " " << to_string(op) << " of " << count;
        ASSERT_EQ(in_place, wanted_in_place) << kernels.target << " " << to_string(op);
      }
    }
  }
}

TYPED_TEST(ReduceTest, DividesAndTruncatesIntegersTowardsZero) {
  constexpr DataType kType = TypeParam::value;
  using T = StoredAs<kType>;
  std::vector<T> values = special<kType>();
  const std::vector<T> random = random_values<kType>(1000, 3);
  values.insert(values.end(), random.begin(), random.end());
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const int32_t divisor :
         {1, 2, 3, 7, 255, 256, 65537, std::numeric_limits<int32_t>::max()}) {
      std::vector<T> divided = values;
      kernels.divide(kType, bytes_of(divided.data()), divided.size(), divisor);
      for (size_t i = 0; i < values.size(); ++i) {
        expect_same<kType>(divided[i], reference::divided<kType>(values[i], divisor), kernels,
                           "divided by " + std::to_string(divisor), values[i]);
      }
    }
  }
}

TYPED_TEST(ReduceTest, ScalesByEverySpecialValueInPlaceAndApart) {
  constexpr DataType kType = TypeParam::value;
  using T = StoredAs<kType>;
  std::vector<T> values = special<kType>();
  const std::vector<T> random = random_values<kType>(300, 4);
  values.insert(values.end(), random.begin(), random.end());
  for (const ReduceKernels& kernels : reduce_kernels()) {
    for (const T factor : special<kType>()) {
      std::vector<T> apart(values.size()), in_place = values;
      const Scalar scalar = reference::scalar_of(factor);
      kernels.scale(kType, bytes_of(apart.data()), bytes_of(values.data()), values.size(), scalar);
      kernels.scale(kType, bytes_of(in_place.data()), bytes_of(in_place.data()), values.size(),
                    scalar);
      for (size_t i = 0; i < values.size(); ++i) {
        expect_same<kType>(apart[i], reference::product<kType>(values[i], factor), kernels,
                           "scaled", values[i], factor);
      }
      ASSERT_EQ(in_place, apart) << kernels.target;
    }
  }
}

TEST(Reduce, SupportsBitwiseOperationsOnIntegersOnly) {
  for (const DataType type : kDataTypes) {
    const std::string name = to_string(type);
    const bool integer = name.find("int") != std::string::npos;
    EXPECT_EQ(is_integer(type), integer) << name;
    EXPECT_EQ(supports(type, ReduceOp::bxor), integer) << name;
    EXPECT_TRUE(supports(type, ReduceOp::avg)) << name;
    EXPECT_TRUE(supports(type, ReduceOp::premulsum)) << name;
  }
}

// Sets a floating-point mode that changes results, and traps on the operations that make a NaN or
// round.
class HostileFloatMode {
 public:
  HostileFloatMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
    feenableexcept(FE_INVALID | FE_INEXACT);
#ifdef __SSE2__
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    constexpr unsigned kDenormalsAreZero = 0x40;
    _mm_setcsr(_mm_getcsr() | kDenormalsAreZero);
#endif
  }
  ~HostileFloatMode() {
    std::fesetenv(&before_);
  }

 private:
  std::fenv_t before_;
};

TYPED_TEST(ReduceTest, GivesTheSameBitsWhateverFloatModeItsThreadHasSetAndKeepsThatMode) {
  constexpr DataType kType = TypeParam::value;
  using T = StoredAs<kType>;
  const std::vector<T> a = random_values<kType>(500, 5), b = random_values<kType>(500, 6);
  const Scalar scalar = reference::scalar_of(reference::Element<kType>::stored(3));
  const auto average = [&](std::vector<T>& result) {
    reduce(kType, ReduceOp::avg, bytes_of(result.data()), bytes_of(a.data()), bytes_of(b.data()),
           a.size());
    divide(kType, bytes_of(result.data()), a.size(), 3);
    scale(kType, bytes_of(result.data()), bytes_of(result.data()), a.size(), scalar);
  };
  std::vector<T> plain(a.size()), hostile(a.size());
  average(plain);
  int rounding = 0;
  {
    const HostileFloatMode mode;
    average(hostile);
    rounding = std::fegetround();
  }
  EXPECT_EQ(hostile, plain);
  EXPECT_EQ(rounding, FE_UPWARD);
}

}  // namespace
}  // namespace r2ccl
