#include "protocol/delivery/send_ledger.h"

#include <gtest/gtest.h>

#include <random>
#include <type_traits>

#include "base/limits.h"

namespace r2ccl {
namespace {

using Numbers = std::vector<MessageNo>;

constexpr uint32_t kCut = 4096;

// A ledger, memory to send from, and the report that the peer would give.
struct Sender {
  explicit Sender(uint64_t eager = 0) : ledger(ChannelId(1), eager) {
    report.channel = ChannelId(1);
    report.eager_total = eager;
  }
  SendLedger::Posted post(size_t bytes) { return ledger.post({memory.data(), bytes}, 7); }
  void permit_all() {
    report.posted = MessageNo(1'000'000);
    ASSERT_TRUE(apply().ok());
  }
  Status apply() { return apply(report); }
  Status apply(const ChannelReport& what) {
    std::vector<SendLedger::Posted> ended;
    const Status status = ledger.apply(what, ended);
    for (const SendLedger::Posted& each : ended) completed.push_back(each.number);
    return status;
  }
  // Sends every permitted chunk; returns their number.
  int send_all(uint32_t cut = kCut) {
    int chunks = 0;
    while (const auto chunk = ledger.next_fresh(cut)) {
      ledger.transmit(*chunk);
      ++chunks;
    }
    return chunks;
  }

  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  SendLedger ledger;
  ChannelReport report;
  Numbers completed;
};

PartialMessage partial(uint64_t message, uint32_t prefix, std::vector<std::byte> bitmap = {}) {
  return {MessageNo(message), prefix, std::move(bitmap)};
}

// Its buffered messages point into the ledger itself.
static_assert(!std::is_copy_constructible_v<SendLedger> && !std::is_copy_assignable_v<SendLedger>);

TEST(SendLedger, SendsNothingWithoutPermission) {
  Sender s(0);
  s.post(100);
  EXPECT_FALSE(s.ledger.next_fresh(kCut));
  s.permit_all();
  EXPECT_TRUE(s.ledger.next_fresh(kCut));
}

TEST(SendLedger, CutsAMessageWhenItsFirstChunkGoesAndNeverAgain) {
  Sender s;
  s.permit_all();
  s.post(10'000);
  const DataHeader first = s.ledger.transmit(*s.ledger.next_fresh(kCut));
  EXPECT_EQ(first.offset, 0u);
  EXPECT_EQ(first.payload_bytes, 4096u);
  const DataHeader second = s.ledger.transmit(*s.ledger.next_fresh(64));
  EXPECT_EQ(second.offset, 4096u);
  EXPECT_EQ(second.chunk_bytes, kCut);
  const DataHeader third = s.ledger.transmit(*s.ledger.next_fresh(1 << 20));
  EXPECT_EQ(third.offset, 8192u);
  EXPECT_EQ(third.payload_bytes, 1808u);
  EXPECT_FALSE(s.ledger.next_fresh(kCut));
  // A retransmission is the same chunk.
  EXPECT_EQ(s.ledger.transmit({MessageNo(0), 1}), second);
}

TEST(SendLedger, HeaderDescribesTheMessage) {
  Sender s;
  s.permit_all();
  s.post(100);
  const DataHeader header = s.ledger.transmit(*s.ledger.next_fresh(kCut));
  EXPECT_EQ(header.channel, ChannelId(1));
  EXPECT_EQ(header.message, MessageNo(0));
  EXPECT_EQ(header.message_bytes, 100u);
  EXPECT_EQ(header.context, 7u);
  EXPECT_FALSE(header.eager);
  EXPECT_EQ(s.ledger.bytes({MessageNo(0), 0}).size(), 100u);
}

TEST(SendLedger, SendsLargeMessagesStraightFromTheirMemory) {
  Sender s;
  s.permit_all();
  EXPECT_FALSE(s.post(limits::kBufferedSendBytesMax + 1).buffered);
  s.send_all();
  EXPECT_EQ(s.ledger.bytes({MessageNo(0), 1}).data(), s.memory.data() + kCut);
}

TEST(SendLedger, CopiesSmallMessagesSoThatTheirMemoryMayChangeAtOnce) {
  Sender s;
  s.memory[99] = std::byte{1};
  ASSERT_TRUE(s.post(100).buffered);
  s.memory[99] = std::byte{2};
  s.permit_all();
  const ChunkRef chunk = *s.ledger.next_fresh(kCut);
  s.ledger.transmit(chunk);
  const std::span<const std::byte> bytes = s.ledger.bytes(chunk);
  EXPECT_EQ(bytes[99], std::byte{1});
  // A half-written frame may read them until the caller knows that the message ended.
  s.report.low_water = MessageNo(1);
  ASSERT_TRUE(s.apply().ok());
  EXPECT_EQ(bytes[99], std::byte{1});
}

TEST(SendLedger, BoundsItsCopiesAndFreesThemAsMessagesComplete) {
  Sender s;
  s.permit_all();
  const uint64_t fit = limits::kBufferedBytesPerChannel / limits::kBufferedSendBytesMax;
  for (uint64_t i = 0; i < fit; ++i) {
    EXPECT_TRUE(s.post(limits::kBufferedSendBytesMax).buffered) << i;
  }
  EXPECT_FALSE(s.post(limits::kBufferedSendBytesMax).buffered);
  s.send_all();
  s.report.low_water = MessageNo(1);
  ASSERT_TRUE(s.apply().ok());
  EXPECT_TRUE(s.post(limits::kBufferedSendBytesMax).buffered);
  EXPECT_FALSE(s.post(limits::kBufferedSendBytesMax).buffered);
}

TEST(SendLedger, CopiesTheUnacknowledgedRestOfMessagesThatWereSentWhole) {
  Sender s;
  s.permit_all();
  s.memory[20 * kCut] = std::byte{1};
  s.post(25 * kCut);
  std::vector<SendLedger::Posted> ended;
  s.ledger.transmit(*s.ledger.next_fresh(kCut));
  EXPECT_FALSE(s.ledger.copy_remainder(ended)) << "not all was sent";
  EXPECT_TRUE(ended.empty());
  s.send_all();
  s.report.partial = {partial(0, 3)};
  ASSERT_TRUE(s.apply().ok());
  EXPECT_TRUE(s.ledger.copy_remainder(ended));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].number, MessageNo(0));
  s.memory[20 * kCut] = std::byte{2};
  EXPECT_EQ(s.ledger.bytes({MessageNo(0), 20})[0], std::byte{1});
  EXPECT_EQ(s.ledger.bytes({MessageNo(0), 24}).size(), kCut);
  EXPECT_TRUE(s.ledger.copy_remainder(ended));
  EXPECT_EQ(ended.size(), 1u) << "each is told once";
}

TEST(SendLedger, DoesNotCopyTheRestOfAMessageThatAConnectionMayStillRead) {
  Sender s;
  s.permit_all();
  s.post(25 * kCut);
  s.post(25 * kCut);
  s.send_all();
  s.ledger.keep_source(MessageNo(1));
  std::vector<SendLedger::Posted> ended;
  EXPECT_FALSE(s.ledger.copy_remainder(ended));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].number, MessageNo(0));
  s.report.low_water = MessageNo(2);
  ASSERT_TRUE(s.apply().ok());
  EXPECT_TRUE(s.ledger.copy_remainder(ended)) << "it is acknowledged";
}

TEST(SendLedger, CopiesNoMoreOfTheRestThanItsBound) {
  Sender s;
  s.permit_all();
  const uint64_t half = limits::kBufferedBytesPerChannel / 2 + kCut;
  s.post(half);
  s.post(half);
  s.send_all();
  std::vector<SendLedger::Posted> ended;
  EXPECT_FALSE(s.ledger.copy_remainder(ended));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].number, MessageNo(0));
  // An acknowledged chunk need not be copied, and makes room.
  s.report.partial = {partial(1, 3)};
  ASSERT_TRUE(s.apply().ok());
  EXPECT_TRUE(s.ledger.copy_remainder(ended));
  EXPECT_EQ(ended.size(), 2u);
}

TEST(SendLedger, AMessageOfNoBytesIsOneChunkThatMustBeAcknowledged) {
  Sender s;
  s.permit_all();
  s.post(0);
  EXPECT_EQ(s.send_all(), 1);
  EXPECT_FALSE(s.ledger.idle());
  s.report.low_water = MessageNo(1);
  ASSERT_TRUE(s.apply().ok());
  EXPECT_EQ(s.completed, Numbers{MessageNo(0)});
  EXPECT_TRUE(s.ledger.idle());
}

TEST(SendLedger, EagerBytesAreChargedOnceAndARetransmitNeedsNoMore) {
  Sender s(kCut);
  s.post(2 * kCut);
  const auto chunk = s.ledger.next_fresh(kCut);
  EXPECT_TRUE(s.ledger.transmit(*chunk).eager);
  EXPECT_FALSE(s.ledger.next_fresh(kCut));  // the pool is used up
  EXPECT_TRUE(s.ledger.copy_gone(*chunk));  // lost
  EXPECT_TRUE(s.ledger.transmit(*chunk).eager) << "a retransmission of an eager chunk stays eager";
  EXPECT_FALSE(s.ledger.next_fresh(kCut));
  s.report.eager_total = 2 * kCut;
  ASSERT_TRUE(s.apply().ok());
  EXPECT_TRUE(s.ledger.next_fresh(kCut));
}

TEST(SendLedger, APostedReceiveCostsNoEagerBytes) {
  Sender s(kCut);
  s.permit_all();
  s.post(kCut);
  EXPECT_FALSE(s.ledger.transmit(*s.ledger.next_fresh(kCut)).eager);
  // A chunk that went out under credit stays so, whenever it is retransmitted.
  s.ledger.copy_gone({MessageNo(0), 0});
  EXPECT_FALSE(s.ledger.transmit({MessageNo(0), 0}).eager);
}

TEST(SendLedger, OldReportsTakeNothingBack) {
  Sender s(0);
  s.post(3 * kCut);
  ChannelReport old = s.report;
  s.report.posted = MessageNo(1);
  s.report.eager_total = 100;
  ASSERT_TRUE(s.apply().ok());
  ASSERT_EQ(s.send_all(), 3);
  s.report.partial = {partial(0, 2)};
  ASSERT_TRUE(s.apply().ok());
  ASSERT_TRUE(s.apply(old).ok());
  old.partial = {partial(0, 1)};
  ASSERT_TRUE(s.apply(old).ok());
  EXPECT_FALSE(s.ledger.needs_delivery({MessageNo(0), 1}));
  EXPECT_TRUE(s.ledger.needs_delivery({MessageNo(0), 2}));
  s.report.low_water = MessageNo(1);
  ASSERT_TRUE(s.apply().ok());
  ASSERT_TRUE(s.apply().ok());
  ASSERT_TRUE(s.apply(old).ok());
  EXPECT_EQ(s.completed, Numbers{MessageNo(0)});  // once
}

TEST(SendLedger, MessagesMayCompleteOutOfOrderAndEachOnce) {
  Sender s;
  s.permit_all();
  for (int i = 0; i < 3; ++i) s.post(10);
  s.send_all();
  s.report.partial = {partial(2, 1)};
  ASSERT_TRUE(s.apply().ok());
  EXPECT_EQ(s.completed, Numbers{MessageNo(2)});
  EXPECT_EQ(s.ledger.low_water(), MessageNo(0));
  s.report.low_water = MessageNo(1);
  ASSERT_TRUE(s.apply().ok());
  EXPECT_EQ(s.completed, (Numbers{MessageNo(2), MessageNo(0)}));
  EXPECT_EQ(s.ledger.low_water(), MessageNo(1));
  s.report.low_water = MessageNo(3);
  s.report.partial.clear();
  ASSERT_TRUE(s.apply().ok());
  EXPECT_EQ(s.completed, (Numbers{MessageNo(2), MessageNo(0), MessageNo(1)}));
  EXPECT_TRUE(s.ledger.idle());
}

TEST(SendLedger, ABitmapAcknowledgesBeyondAGap) {
  Sender s;
  s.permit_all();
  s.post(10 * kCut);
  s.send_all();
  s.report.partial = {partial(0, 1, {std::byte{0b10}})};  // chunks 0 and 2
  ASSERT_TRUE(s.apply().ok());
  for (uint32_t chunk = 0; chunk < 10; ++chunk) {
    EXPECT_EQ(s.ledger.needs_delivery({MessageNo(0), chunk}), chunk != 0 && chunk != 2) << chunk;
  }
}

TEST(SendLedger, RefusesAcknowledgementsOfChunksThatWereNeverSent) {
  const auto refused = [](auto change) {
    Sender s(kCut);
    s.post(3 * kCut);  // one chunk may go, two may not
    s.post(10);
    EXPECT_EQ(s.send_all(), 1);
    change(s.report);
    const Status status = s.apply();
    EXPECT_TRUE(s.completed.empty());
    return status.code() == Code::remote;
  };
  EXPECT_FALSE(refused([](ChannelReport& r) { r.partial = {partial(0, 1)}; }));
  EXPECT_TRUE(refused([](ChannelReport& r) { r.partial = {partial(0, 2)}; }));
  EXPECT_TRUE(refused([](ChannelReport& r) { r.partial = {partial(0, UINT32_MAX)}; }));
  EXPECT_TRUE(refused([](ChannelReport& r) { r.partial = {partial(0, 0, {std::byte{2}})}; }));
  EXPECT_TRUE(refused([](ChannelReport& r) {
    r.partial = {partial(0, UINT32_MAX, std::vector(128, std::byte{0xff}))};
  }));
  EXPECT_TRUE(refused([](ChannelReport& r) { r.partial = {partial(1, 1)}; }));  // not begun
  EXPECT_TRUE(refused([](ChannelReport& r) { r.partial = {partial(2, 1)}; }));  // not posted
  EXPECT_TRUE(refused([](ChannelReport& r) { r.low_water = MessageNo(1); }));   // sent in part
  EXPECT_TRUE(refused([](ChannelReport& r) { r.low_water = MessageNo(2); }));
  EXPECT_TRUE(refused([](ChannelReport& r) { r.low_water = MessageNo(UINT64_MAX); }));
}

TEST(SendLedger, AsksForARetransmitOnlyWhenTheLastCopyIsGone) {
  Sender s;
  s.permit_all();
  s.post(10);
  const ChunkRef chunk = *s.ledger.next_fresh(kCut);
  s.ledger.transmit(chunk);
  s.ledger.transmit(chunk);  // a hedge
  EXPECT_EQ(s.ledger.copies(chunk), 2u);
  EXPECT_FALSE(s.ledger.copy_gone(chunk));
  EXPECT_TRUE(s.ledger.copy_gone(chunk));
  s.ledger.transmit(chunk);
  s.report.low_water = MessageNo(1);
  ASSERT_TRUE(s.apply().ok());
  EXPECT_FALSE(s.ledger.copy_gone(chunk));
  EXPECT_FALSE(s.ledger.needs_delivery(chunk));
}

TEST(SendLedger, SendsNoFurtherAheadThanABitmapCanTell) {
  Sender s;
  s.permit_all();
  s.post(64 * (limits::kAckBitmapChunks + 10));
  EXPECT_EQ(s.send_all(64), static_cast<int>(limits::kAckBitmapChunks));
  s.report.partial = {partial(0, 3)};
  ASSERT_TRUE(s.apply().ok());
  EXPECT_EQ(s.send_all(64), 3);
}

TEST(SendLedger, OpensNoMoreMessagesThanTheReceiverWillHold) {
  Sender s;
  s.permit_all();
  for (uint64_t i = 0; i < limits::kMessagesAheadMax + 5; ++i) s.post(1);
  EXPECT_EQ(s.send_all(), static_cast<int>(limits::kMessagesAheadMax));
}

TEST(SendLedger, CancelForgetsEverythingAndAcceptsLateAcknowledgements) {
  Sender s;
  s.permit_all();
  s.post(2 * kCut);
  s.post(10);
  const ChunkRef chunk = *s.ledger.next_fresh(kCut);
  s.ledger.transmit(chunk);
  s.ledger.cancel();
  EXPECT_TRUE(s.ledger.idle());
  EXPECT_EQ(s.ledger.fresh_bytes(), 0u);
  EXPECT_FALSE(s.ledger.next_fresh(kCut));
  EXPECT_FALSE(s.ledger.copy_gone(chunk));
  EXPECT_FALSE(s.ledger.needs_delivery(chunk));
  s.report.partial = {partial(0, 1)};
  EXPECT_TRUE(s.apply().ok());
  EXPECT_TRUE(s.completed.empty());
}

TEST(SendLedger, CountsTheBytesThatWereNeverSent) {
  Sender s;
  s.permit_all();
  s.post(10'000);
  s.post(50);
  EXPECT_EQ(s.ledger.fresh_bytes(), 10'050u);
  EXPECT_EQ(s.ledger.next_message_bytes(), 10'000u);
  s.ledger.transmit(*s.ledger.next_fresh(kCut));
  EXPECT_EQ(s.ledger.fresh_bytes(), 10'050u - kCut);
  s.ledger.transmit({MessageNo(0), 0});  // a hedge is not fresh
  EXPECT_EQ(s.ledger.fresh_bytes(), 10'050u - kCut);
  s.send_all();
  EXPECT_EQ(s.ledger.fresh_bytes(), 0u);
  EXPECT_EQ(s.ledger.next_message_bytes(), 0u);
}

TEST(SendLedger, CutsNoLineOfAMessageThatTheReceiverMaySee) {
  for (const uint64_t context : {uint64_t{7}, kNoContext}) {
    Sender s;
    s.permit_all();
    s.ledger.post({s.memory.data(), 100'000}, context);
    const auto chunk = s.ledger.next_fresh(46'912);
    ASSERT_TRUE(chunk.has_value());
    const uint32_t cut = s.ledger.transmit(*chunk).chunk_bytes;
    EXPECT_EQ(cut, context == kNoContext ? 46'976U : 46'912U);
  }
}

TEST(ChunkCut, IsAMultipleOf64) {
  EXPECT_EQ(chunk_cut(16 << 20, 2, 46'875), 46'912u);  // up to the next multiple of 64
}

TEST(ChunkCut, GivesEveryPathAShareOfAMessage) {
  EXPECT_EQ(chunk_cut(40'000, 4, 1 << 20), 10'048u);
  EXPECT_EQ(chunk_cut(100, 2, 1 << 20), limits::kChunkBytesMin);
  EXPECT_EQ(chunk_cut(0, 0, 1 << 20), limits::kChunkBytesMin);
}

TEST(ChunkCut, LeavesNoSmallRest) {
  // 64 KB a path, and a chunk of 46 KB: two chunks of 32 KB, not one and a rest.
  EXPECT_EQ(chunk_cut(256 * 1024, 4, 46'875), 32u * 1024);
}

TEST(ChunkCut, StaysWithinItsBounds) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t wanted = random() % (2 * limits::kChunkBytesMax);
    const uint64_t bytes = random() % (limits::kMessageBytesMax + 1);
    const uint32_t cut = chunk_cut(bytes, random() % 70, wanted);
    ASSERT_GE(cut, limits::kChunkBytesMin);
    ASSERT_LE(cut, limits::kChunkBytesMax);
    ASSERT_EQ(cut % limits::kChunkAlignment, 0u);
  }
}

}  // namespace
}  // namespace r2ccl
