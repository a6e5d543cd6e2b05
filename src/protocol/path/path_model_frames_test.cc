// The frames that a path model counts as outstanding.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "protocol/path/path_model.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 1000 * kSecond;

TEST(PathModel, CountsFramesAndReturnsThemInOrder) {
  PathModel model;
  for (uint64_t i = 0; i < 5; ++i) {
    Transmission transmission;
    transmission.bytes = 100;
    transmission.chunk = {MessageNo(i), 0};
    model.on_sent(transmission, kStart);
  }
  EXPECT_EQ(model.frames_sent(), 5u);
  EXPECT_EQ(model.bytes_outstanding(), 500u);
  std::vector<Transmission> delivered;
  EXPECT_TRUE(model.on_delivered(3, {}, false, kStart + kMillisecond, delivered));
  ASSERT_EQ(delivered.size(), 3u);
  EXPECT_EQ(delivered[0].chunk.message, MessageNo(0));
  EXPECT_EQ(delivered[2].chunk.message, MessageNo(2));
  EXPECT_EQ(delivered[2].number, 2u);
  EXPECT_EQ(model.bytes_outstanding(), 200u);
  delivered.clear();
  const TimeNs later = kStart + 2 * kMillisecond;
  EXPECT_TRUE(model.on_delivered(3, {}, false, later, delivered)) << "again";
  EXPECT_TRUE(model.on_delivered(2, {}, false, later, delivered)) << "old";
  EXPECT_FALSE(model.on_delivered(6, {}, false, later, delivered)) << "never sent";
  EXPECT_TRUE(delivered.empty());
  EXPECT_EQ(model.outstanding().size(), 2u);
}

TEST(PathModel, AnEmptyPathTakesAChunkOfAnySize) {
  PathModel model;
  EXPECT_TRUE(model.has_room(limits::kChunkBytesMax));
  Transmission transmission;
  transmission.bytes = limits::kChunkBytesMax;
  model.on_sent(transmission, kStart);
  EXPECT_FALSE(model.has_room(1));
}

}  // namespace
}  // namespace r2ccl
