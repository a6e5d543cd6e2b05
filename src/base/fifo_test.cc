#include "base/fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace r2ccl {
namespace {

TEST(Fifo, BehavesAsADequeThroughAnyPushesAndPops) {
  std::mt19937 random(1);
  Fifo<int> fifo;
  std::deque<int> model;
  for (int i = 0; i < 20'000; ++i) {
    // Long runs of either, so that the queue grows, empties and makes room at its front.
    if (model.empty() || random() % 8 < (i / 500 % 2 == 0 ? 5u : 3u)) {
      fifo.push_back(i);
      model.push_back(i);
    } else {
      fifo.pop_front();
      model.pop_front();
    }
    ASSERT_EQ(fifo.size(), model.size());
    ASSERT_EQ(fifo.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(fifo.front(), model.front());
    ASSERT_EQ(fifo.back(), model.back());
    const size_t any = random() % model.size();
    ASSERT_EQ(fifo[any], model[any]);
    if (i % 100 != 0) continue;
    ASSERT_TRUE(std::equal(fifo.begin(), fifo.end(), model.begin(), model.end()));
    ASSERT_TRUE(std::equal(fifo.rbegin(), fifo.rend(), model.rbegin(), model.rend()));
  }
}

TEST(Fifo, ACopyHoldsOnlyTheItemsThatAreLeft) {
  Fifo<int> fifo;
  for (int i = 0; i < 5; ++i) fifo.push_back(i);
  fifo.pop_front();
  Fifo<int> copy = fifo;
  fifo.clear();
  EXPECT_TRUE(fifo.empty());
  EXPECT_EQ(copy.size(), 4u);
  EXPECT_EQ(copy.front(), 1);
}

TEST(Fifo, ErasesAnyOfTheItemsThatAreLeft) {
  Fifo<int> fifo;
  for (int i = 0; i < 6; ++i) fifo.push_back(i);
  fifo.pop_front();
  fifo.erase_if([](int item) { return item % 2 == 0; });
  EXPECT_EQ(std::vector<int>(fifo.begin(), fifo.end()), (std::vector<int>{1, 3, 5}));
  fifo.erase_if([](int) { return true; });
  EXPECT_TRUE(fifo.empty());
}

TEST(Fifo, AnItemThatIsTakenFreesItsMemoryAtOnce) {
  Fifo<std::shared_ptr<int>> fifo;
  const auto item = std::make_shared<int>(1);
  fifo.emplace_back() = item;
  fifo.push_back(item);
  fifo.pop_front();
  EXPECT_EQ(item.use_count(), 2);
  EXPECT_EQ(fifo.front(), item);
}

}  // namespace
}  // namespace r2ccl
