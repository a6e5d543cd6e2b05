#include "protocol/admin/drain.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(NicSet, HoldsTheNicsThatWereSetAndNoOthers) {
  NicSet set;
  for (uint16_t nic = 0; nic < limits::kNicsMax; ++nic) {
    EXPECT_FALSE(set.contains(NicId(nic)));
    set.set(NicId(nic), true);
    EXPECT_TRUE(set.contains(NicId(nic)));
    EXPECT_EQ(NicSet(set.bits()), set);
    set.set(NicId(nic), false);
    EXPECT_EQ(set, NicSet());
  }
}

TEST(NicSet, DoesNotHoldAnIdThatIsNoNic) {
  NicSet all(UINT64_MAX);
  EXPECT_FALSE(all.contains(kNoNic));
  EXPECT_FALSE(all.contains(NicId(limits::kNicsMax)));
  NicSet none;
  none.set(kNoNic, true);
  none.set(NicId(limits::kNicsMax), true);
  EXPECT_EQ(none, NicSet());
}

DrainQuestion question() {
  return {.verb = DrainVerb::take_back,
          .host = Rank(300),
          .nic = "enp1s0f1np1",
          .ticket = 0xfedcba9876543210};
}

TEST(DrainQuestion, ComesBackAsItWasSent) {
  const auto back = decode_drain_question(encode(question()));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value(), question());
}

TEST(DrainQuestion, IsRefusedAtEveryShorterLengthAndReadWithBytesThatALaterVersionAppends) {
  std::vector<std::byte> bytes = encode(question());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_drain_question(std::span(bytes).first(size)).ok()) << size;
  }
  bytes.push_back(std::byte{1});
  EXPECT_TRUE(decode_drain_question(bytes).ok());
}

TEST(DrainQuestion, IsRefusedWithAnImpossibleVerbOrName) {
  std::vector<std::byte> bytes = encode(question());
  bytes[0] = std::byte{4};
  EXPECT_FALSE(decode_drain_question(bytes).ok());
  DrainQuestion nameless = question();
  nameless.nic = "";
  EXPECT_FALSE(decode_drain_question(encode(nameless)).ok());
  nameless.nic = std::string(kDrainNicBytesMax + 1, 'x');
  EXPECT_FALSE(decode_drain_question(encode(nameless)).ok());
}

TEST(DrainTally, ComesBackAsItWasSentAndIsRefusedWhenShort) {
  const DrainTally tally{.paths = 6,
                         .up = 5,
                         .marked = 4,
                         .in_use = 3,
                         .busy = 2,
                         .stranded = 1,
                         .peer = Rank(9),
                         .stranded_peer = Rank(10)};
  const std::vector<std::byte> bytes = encode(tally);
  const auto back = decode_drain_tally(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value(), tally);
  EXPECT_EQ(decode_drain_tally(encode(DrainTally())).value(), DrainTally());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_drain_tally(std::span(bytes).first(size)).ok()) << size;
  }
}

}  // namespace
}  // namespace r2ccl
