#include "tools/bench/periodic_values.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/reduction.h"

namespace r2ccl::tools {
namespace {

constexpr size_t kCount = 9000;  // more than two periods

using Memory = std::vector<std::byte>;

Memory input(const PeriodicValues& values, DataType type, int rank, uint64_t iteration) {
  Memory memory(kCount * size_of(type));
  values.fill(memory.data(), kCount, rank, iteration);
  return memory;
}

// Reduces in an order that begins at `first`: the order must not matter.
Memory reduced(const PeriodicValues& values, DataType type, ReduceOp op, int ranks, int first) {
  Memory result = input(values, type, first % ranks, 7);
  reference::with_type(type, [&](auto constant) {
    constexpr DataType kType = decltype(constant)::kValue;
    using Stored = typename reference::Element<kType>::Stored;
    const auto each = [&](const auto& change) {
      for (size_t at = 0; at < result.size(); at += sizeof(Stored)) {
        Stored value;
        std::memcpy(&value, result.data() + at, sizeof(value));
        value = change(at, value);
        std::memcpy(result.data() + at, &value, sizeof(value));
      }
    };
    for (int i = 1; i < ranks; ++i) {
      const Memory other = input(values, type, (first + i) % ranks, 7);
      each([&](size_t at, Stored value) {
        Stored next;
        std::memcpy(&next, other.data() + at, sizeof(next));
        return reference::reduced<kType>(op, value, next);
      });
    }
    if (op == ReduceOp::avg) {
      each([&](size_t, Stored value) { return reference::divided<kType>(value, ranks); });
    }
  });
  return result;
}

TEST(PeriodicValues, TellEveryReductionOfEveryTypeExactlyInAnyOrder) {
  for (const int ranks : {1, 2, 3, 16, 300}) {
    for (const DataType type : kDataTypes) {
      for (const ReduceOp op : kReduceOps) {
        if (!supports(type, op)) continue;
        // Only the 16-bit types depend on so many ranks.
        if (ranks > 16 && (op != ReduceOp::sum || size_of(type) != 2)) continue;
        const PeriodicValues values(ranks, type, op);
        for (const int first : {0, ranks / 2}) {
          const Memory result = reduced(values, type, op, ranks, first);
          EXPECT_EQ(values.count_wrong_reduced(result.data(), kCount, 7), 0u)
              << ranks << " ranks, " << to_string(op) << " of " << to_string(type);
          EXPECT_GT(values.count_wrong_reduced(result.data(), kCount, 6), 0u);
        }
      }
    }
  }
}

TEST(PeriodicValues, SeeDataThatIsMovedStaleOrFromAnotherRank) {
  for (const DataType type : kDataTypes) {
    const PeriodicValues values(4, type, ReduceOp::sum);
    Memory data = input(values, type, 1, 7);
    const std::byte* const moved = data.data() + 3 * size_of(type);
    EXPECT_EQ(values.count_wrong_copied(data.data(), kCount, 1, 7), 0u);
    EXPECT_EQ(values.count_wrong_copied(moved, kCount - 3, 1, 7, 3), 0u);
    EXPECT_GT(values.count_wrong_copied(moved, kCount - 3, 1, 7), kCount * 9 / 10);
    EXPECT_GT(values.count_wrong_copied(data.data(), kCount, 2, 7), kCount * 9 / 10);
    EXPECT_GT(values.count_wrong_copied(data.data(), kCount, 1, 8), kCount * 9 / 10);
    data[0] ^= std::byte{1};
    data.back() ^= std::byte{1};
    EXPECT_EQ(values.count_wrong_copied(data.data(), kCount, 1, 7), 2u);
  }
}

}  // namespace
}  // namespace r2ccl::tools
