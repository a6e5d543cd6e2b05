#include "base/small_array.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>

namespace r2ccl {
namespace {

using Array = SmallArray<uint16_t, 3>;

TEST(SmallArray, HoldsItemsOfAnySizeAndBeginsWithZeros) {
  for (const size_t size : {0U, 1U, 3U, 4U, 100U}) {
    Array array(size);
    ASSERT_EQ(array.size(), size);
    EXPECT_EQ(std::accumulate(array.begin(), array.end(), 0), 0);
    std::iota(array.begin(), array.end(), uint16_t{1});
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(std::as_const(array)[i], i + 1);
  }
}

TEST(SmallArray, MovesItsItemsAndIsEmptyAfterwards) {
  for (const size_t size : {2U, 5U}) {
    Array from(size);
    from[1] = 7;
    Array to = std::move(from);
    ASSERT_EQ(to.size(), size);
    EXPECT_EQ(to[1], 7);
    EXPECT_EQ(from.size(), 0U);  // NOLINT: the state after a move is defined
    from = std::move(to);
    ASSERT_EQ(from.size(), size);
    EXPECT_EQ(from[1], 7);
  }
}

TEST(SmallArray, ASmallOneTakesThePlaceOfALargeOne) {
  Array array(100);
  array[0] = 1;
  array = Array(2);
  EXPECT_EQ(array.size(), 2U);
  EXPECT_EQ(array[0], 0);
}

}  // namespace
}  // namespace r2ccl
