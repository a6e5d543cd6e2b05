#include "protocol/delivery/spare_memory.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(SpareMemory, GivesABlockBackToTheNextThatItFits) {
  SpareMemory spare(1000);
  std::vector<std::byte> block = spare.take(100);
  EXPECT_GE(block.capacity(), 100u);
  const std::byte* memory = block.data();
  spare.give(std::move(block));
  EXPECT_NE(spare.take(101).data(), memory);
  EXPECT_NE(spare.take(20).data(), memory);  // much smaller
  EXPECT_EQ(spare.take(80).data(), memory);
  spare.check_invariants();
}

TEST(SpareMemory, HoldsNoMoreThanItsBound) {
  SpareMemory spare(1000);
  std::vector<std::byte> first = spare.take(600);
  std::vector<std::byte> second = spare.take(500);
  const std::byte* memory = first.data();
  spare.give(std::move(first));
  spare.give(std::move(second));
  spare.check_invariants();
  EXPECT_EQ(spare.take(600).data(), memory);
  EXPECT_EQ(spare.take(500).size(), 0u);  // a new one
}

TEST(SpareMemory, ForgetsAllBlocks) {
  SpareMemory spare(1000);
  spare.give(std::vector<std::byte>(600));
  spare.clear();
  spare.check_invariants();
  spare.give(std::vector<std::byte>(600));
  EXPECT_EQ(spare.take(600).size(), 600u);
}

}  // namespace
}  // namespace r2ccl
