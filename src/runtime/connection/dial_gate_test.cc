#include "runtime/connection/dial_gate.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace r2ccl {
namespace {

class DialGateTest : public testing::Test {
 protected:
  struct Dial final : DialGate::Place::Owner {
    Dial(std::vector<int>& all, int id) : admitted(all), number(id) {}
    void on_admitted() override { admitted.push_back(number); }
    std::vector<int>& admitted;
    const int number;
    DialGate::Place place{*this};
  };

  DialGateTest() {
    for (int i = 0; i < 65; ++i) dials_.emplace_back(admitted_, i);
  }
  bool enter(size_t dial) { return dials_[dial].place.enter(gate_); }

  DialGate gate_{3};
  std::vector<int> admitted_;  // in the order in which they waited no longer
  std::deque<Dial> dials_;
};

TEST_F(DialGateTest, AdmitsSoManyAndTheOthersInTheirOrder) {
  for (size_t i = 0; i < dials_.size(); ++i) EXPECT_EQ(enter(i), i < 3) << i;
  std::vector<int> order;
  for (int i = 3; i < 65; ++i) order.push_back(i);
  for (Dial& dial : dials_) {
    EXPECT_TRUE(gate_.inside() == 3 || gate_.waiting() == 0);
    EXPECT_LE(gate_.inside(), 3U);
    dial.place.leave();
  }
  EXPECT_EQ(admitted_, order);
  EXPECT_EQ(gate_.inside(), 0U);
}

TEST_F(DialGateTest, APlaceThatHasEnteredEntersOnce) {
  EXPECT_TRUE(enter(0));
  EXPECT_TRUE(enter(0));
  EXPECT_EQ(gate_.inside(), 1U);
  enter(1);
  enter(2);
  EXPECT_FALSE(enter(3));
  EXPECT_FALSE(enter(3));
  EXPECT_EQ(gate_.waiting(), 1U);
  dials_[2].place.leave();
  EXPECT_TRUE(enter(3));
  EXPECT_EQ(admitted_, std::vector<int>{3});
}

TEST_F(DialGateTest, ADialThatNoLongerWaitsIsNotAdmitted) {
  for (size_t i = 0; i < 5; ++i) enter(i);
  dials_[3].place.leave();
  EXPECT_FALSE(dials_[3].place.waits());
  EXPECT_TRUE(dials_[4].place.waits());
  dials_[0].place.leave();
  EXPECT_EQ(admitted_, std::vector<int>{4});
  EXPECT_EQ(gate_.inside(), 3U);
}

TEST_F(DialGateTest, TheEndOfADialGivesItsPlaceBack) {
  {
    Dial dial(admitted_, 99);
    EXPECT_TRUE(dial.place.enter(gate_));
    enter(0);
    enter(1);
    EXPECT_FALSE(enter(2));
  }
  EXPECT_EQ(admitted_, std::vector<int>{2});
  EXPECT_EQ(gate_.inside(), 3U);
}

}  // namespace
}  // namespace r2ccl
