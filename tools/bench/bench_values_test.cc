#include "tools/bench/bench_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace r2ccl::tools {
namespace {

constexpr size_t kCount = 1000;

template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr r2cclDataType_t value = r2cclFloat32;
};
template <>
struct TypeOf<double> {
  static constexpr r2cclDataType_t value = r2cclFloat64;
};
template <>
struct TypeOf<int32_t> {
  static constexpr r2cclDataType_t value = r2cclInt32;
};
template <>
struct TypeOf<int64_t> {
  static constexpr r2cclDataType_t value = r2cclInt64;
};

template <typename T>
class BenchValuesTest : public ::testing::Test {
 protected:
  static constexpr r2cclDataType_t kType = TypeOf<T>::value;

  std::vector<T> input(const BenchValues& values, int rank, uint64_t iteration) {
    std::vector<T> data(kCount);
    values.fill(data.data(), kCount, kType, r2cclSum, rank, iteration);
    return data;
  }

  // Reduces in the plainest way, in an order that begins at `first`: the order must not matter.
  std::vector<T> reduced(const BenchValues& values, int ranks, r2cclRedOp_t redop, int first) {
    std::vector<T> result = input(values, first % ranks, 7);
    for (int i = 1; i < ranks; ++i) {
      std::vector<T> other = input(values, (first + i) % ranks, 7);
      for (size_t k = 0; k < kCount; ++k) {
        if (redop == r2cclMax) {
          result[k] = std::max(result[k], other[k]);
        } else if (redop == r2cclMin) {
          result[k] = std::min(result[k], other[k]);
        } else {
          result[k] += other[k];
        }
      }
    }
    if (redop == r2cclAvg) {
      for (T& value : result) value /= static_cast<T>(ranks);
    }
    return result;
  }
};
using Types = ::testing::Types<float, double, int32_t, int64_t>;
TYPED_TEST_SUITE(BenchValuesTest, Types);

TYPED_TEST(BenchValuesTest, TellsEveryReductionExactlyInAnyOrder) {
  for (int ranks : {1, 2, 3, 4, 7, 16, 1024}) {
    BenchValues values(ranks);
    for (r2cclRedOp_t redop : {r2cclSum, r2cclMax, r2cclMin, r2cclAvg}) {
      for (int first : {0, ranks / 2}) {
        std::vector<TypeParam> result = this->reduced(values, ranks, redop, first);
        EXPECT_EQ(values.count_wrong_reduced(result.data(), kCount, this->kType, redop, 7), 0u)
            << ranks << " ranks, operation " << redop;
      }
    }
  }
}

TYPED_TEST(BenchValuesTest, SeesAContributionThatIsMissingDoubledOrStale) {
  constexpr int kRanks = 4;
  BenchValues values(kRanks);
  std::vector<TypeParam> right = this->reduced(values, kRanks, r2cclSum, 0);
  std::vector<TypeParam> one = this->input(values, 2, 7), stale = this->input(values, 2, 6);
  auto wrong = [&](auto change) {
    std::vector<TypeParam> result = right;
    for (size_t k = 0; k < kCount; ++k) result[k] += change(k);
    return values.count_wrong_reduced(result.data(), kCount, this->kType, r2cclSum, 7);
  };
  EXPECT_EQ(wrong([&](size_t k) { return -one[k]; }), kCount);
  EXPECT_EQ(wrong([&](size_t k) { return one[k]; }), kCount);
  EXPECT_GT(wrong([&](size_t k) { return stale[k] - one[k]; }), kCount * 99 / 100);
}

TYPED_TEST(BenchValuesTest, SeesDataThatIsMovedOrFromAnotherRank) {
  BenchValues values(4);
  std::vector<TypeParam> data = this->input(values, 1, 7);
  EXPECT_EQ(values.count_wrong_copied(data.data(), kCount, this->kType, r2cclSum, 1, 7), 0u);
  EXPECT_EQ(values.count_wrong_copied(data.data() + 3, kCount - 3, this->kType, r2cclSum, 1, 7, 3),
            0u);
  EXPECT_EQ(values.count_wrong_copied(data.data(), kCount, this->kType, r2cclSum, 2, 7), kCount);
  EXPECT_GT(values.count_wrong_copied(data.data(), kCount, this->kType, r2cclSum, 1, 8),
            kCount * 99 / 100);
  EXPECT_GT(values.count_wrong_copied(data.data() + 1, kCount - 1, this->kType, r2cclSum, 1, 7),
            kCount * 99 / 100);
}

TYPED_TEST(BenchValuesTest, CountsEverySingleWrongElement) {
  BenchValues values(3);
  std::vector<TypeParam> data = this->reduced(values, 3, r2cclSum, 0);
  data[0] += 1;
  data[kCount / 2] = 0;
  data[kCount - 1] -= 1;
  EXPECT_EQ(values.count_wrong_reduced(data.data(), kCount, this->kType, r2cclSum, 7), 3u);
}

TEST(BenchValues, LetsSeveralRanksWinAMaximum) {
  BenchValues values(4);
  std::set<int> winners;
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<float> data(kCount);
    values.fill(data.data(), kCount, r2cclFloat32, r2cclMax, rank, 0);
    uint64_t wrong = values.count_wrong_reduced(data.data(), kCount, r2cclFloat32, r2cclMax, 0);
    if (wrong < kCount) winners.insert(rank);
  }
  EXPECT_GE(winners.size(), 2u);
}

}  // namespace
}  // namespace r2ccl::tools
