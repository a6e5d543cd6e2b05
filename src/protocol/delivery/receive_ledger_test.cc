#include "protocol/delivery/receive_ledger.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using Placement = ReceiveLedger::Placement;

constexpr uint32_t kCut = 64;
constexpr uint64_t kContext = 7;
constexpr uint64_t kPool = 4 * kCut;

DataHeader chunk_of(uint64_t message, uint64_t message_bytes, uint32_t chunk, bool eager = false) {
  DataHeader h;
  h.channel = ChannelId(1);
  h.message = MessageNo(message);
  h.message_bytes = message_bytes;
  h.chunk_bytes = kCut;
  h.offset = uint64_t{chunk} * kCut;
  h.payload_bytes = static_cast<uint32_t>(std::min<uint64_t>(kCut, message_bytes - h.offset));
  h.context = kContext;
  h.eager = eager;
  return h;
}

Bytes content(const DataHeader& header) {
  return Bytes(header.payload_bytes, static_cast<std::byte>(0x10 + header.offset / kCut));
}

// Places a chunk whose header has arrived.
const DataHeader& placed(ReceiveLedger& ledger, const DataHeader& header) {
  EXPECT_TRUE(ledger.place(header).ok());
  return header;
}

// Places the chunk, writes its bytes to the destination, and accepts it.
ReceiveLedger::Accepted arrive(ReceiveLedger& ledger, const DataHeader& header) {
  const auto place = ledger.place(header);
  EXPECT_TRUE(place.ok()) << place.status().message();
  if (!place.ok() || place.value().placement == Placement::discard) return {};
  const Bytes bytes = content(header);
  if (place.value().placement == Placement::early) return ledger.accept(header, bytes, 1);
  std::copy(bytes.begin(), bytes.end(), place.value().destination);
  return ledger.accept(header, {}, 1);
}

Bytes whole(uint64_t message_bytes) {
  Bytes bytes(message_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(0x10 + i / kCut);
  return bytes;
}

struct Receiver {
  ReceiveLedger ledger{ChannelId(1), kPool};
  Bytes memory = Bytes(1000, std::byte{0xee});
  std::span<std::byte> room(size_t bytes) { return std::span(memory).first(bytes); }
  bool untouched(size_t from) const {
    return std::all_of(memory.begin() + static_cast<ptrdiff_t>(from), memory.end(),
                       [](std::byte b) { return b == std::byte{0xee}; });
  }
};

TEST(ReceiveLedger, PlacesAPostedChunkWhereItBelongs) {
  Receiver r;
  const auto posted = r.ledger.post(r.room(150), kContext);
  EXPECT_EQ(posted.number, MessageNo(0));
  EXPECT_FALSE(posted.complete);
  const auto place = r.ledger.place(chunk_of(0, 150, 1));
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place.value().placement, Placement::direct);
  EXPECT_EQ(place.value().destination, r.memory.data() + kCut);
}

TEST(ReceiveLedger, AsksForTheOrderOfBytesThatAStandingReceiveMaySee) {
  Receiver r;
  r.ledger.post({r.room(150), kContext, true});
  const auto place = r.ledger.place(chunk_of(0, 150, 1));
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place.value().placement, Placement::in_order);
  EXPECT_EQ(place.value().destination, r.memory.data() + kCut);
}

TEST(ReceiveLedger, CompletesAMessageOnceWhenItsLastChunkIsThere) {
  Receiver r;
  r.ledger.post(r.room(150), kContext);
  EXPECT_FALSE(arrive(r.ledger, chunk_of(0, 150, 2)).message_complete);
  EXPECT_FALSE(arrive(r.ledger, chunk_of(0, 150, 0)).message_complete);
  const auto last = arrive(r.ledger, chunk_of(0, 150, 1));
  EXPECT_TRUE(last.fresh);
  EXPECT_TRUE(last.message_complete);
  EXPECT_FALSE(arrive(r.ledger, chunk_of(0, 150, 1)).message_complete);
  EXPECT_EQ(Bytes(r.memory.begin(), r.memory.begin() + 150), whole(150));
  EXPECT_TRUE(r.untouched(150));
  EXPECT_EQ(r.ledger.report().low_water, MessageNo(1));
  EXPECT_TRUE(r.ledger.idle());
}

TEST(ReceiveLedger, AcceptsOneOfTwoOutstandingCopies) {
  Receiver r;
  r.ledger.post(r.room(100), kContext);
  const DataHeader header = chunk_of(0, 100, 0);
  ASSERT_EQ(r.ledger.place(header).value().placement, Placement::direct);
  ASSERT_EQ(r.ledger.place(header).value().placement, Placement::direct);
  EXPECT_TRUE(r.ledger.accept(header, {}, 1).fresh);
  EXPECT_FALSE(r.ledger.accept(header, {}, 1).fresh);
  EXPECT_EQ(r.ledger.place(header).value().placement, Placement::discard);
}

TEST(ReceiveLedger, EarlyBytesWaitForTheirReceiveAndTheirCreditComesBackThen) {
  Receiver r;
  EXPECT_TRUE(arrive(r.ledger, chunk_of(0, 100, 1, true)).fresh);
  EXPECT_TRUE(arrive(r.ledger, chunk_of(0, 100, 0, true)).fresh);
  EXPECT_EQ(r.ledger.report().eager_total, kPool);
  EXPECT_EQ(r.ledger.report().low_water, MessageNo(0));
  const auto posted = r.ledger.post(r.room(100), kContext);
  EXPECT_TRUE(posted.complete);
  EXPECT_EQ(Bytes(r.memory.begin(), r.memory.begin() + 100), whole(100));
  EXPECT_EQ(r.ledger.report().eager_total, kPool + 100);
  EXPECT_EQ(r.ledger.report().low_water, MessageNo(1));
}

TEST(ReceiveLedger, AnEarlyChunkWhoseReceiveIsPostedMeanwhileGoesThere) {
  Receiver r;
  const DataHeader header = chunk_of(0, 50, 0, true);
  ASSERT_EQ(r.ledger.place(header).value().placement, Placement::early);
  EXPECT_FALSE(r.ledger.post(r.room(50), kContext).complete);
  const auto accepted = r.ledger.accept(header, content(header), 1);
  EXPECT_TRUE(accepted.fresh);
  EXPECT_TRUE(accepted.message_complete);
  EXPECT_EQ(Bytes(r.memory.begin(), r.memory.begin() + 50), whole(50));
  EXPECT_EQ(r.ledger.report().eager_total, kPool + 50);
}

TEST(ReceiveLedger, MemoryOfEarlyChunksServesTheNextOnes) {
  Receiver r;
  const DataHeader first = chunk_of(0, 50, 0, true);
  auto place = r.ledger.place(first);
  ASSERT_EQ(place.value().early.size(), 50);
  const std::byte* const memory = place.value().early.data();
  const Bytes sent = content(first);
  std::copy(sent.begin(), sent.end(), place.value().early.begin());
  r.ledger.accept(first, std::move(place.value().early), 1);
  EXPECT_NE(r.ledger.place(chunk_of(1, 50, 0, true)).value().early.data(), memory);  // in use
  EXPECT_TRUE(r.ledger.post(r.room(50), kContext).complete);
  auto again = r.ledger.place(chunk_of(2, 40, 0, true));
  EXPECT_EQ(again.value().early.data(), memory);
  EXPECT_EQ(again.value().early.size(), 40);
  EXPECT_EQ(Bytes(r.memory.begin(), r.memory.begin() + 50), whole(50));
}

TEST(ReceiveLedger, ASmallEarlyChunkDoesNotKeepALargeOnesMemory) {
  Receiver r;
  const DataHeader large = chunk_of(0, kCut, 0, true);
  EXPECT_TRUE(r.ledger.accept(placed(r.ledger, large), content(large), 1).fresh);
  EXPECT_TRUE(r.ledger.post(r.room(kCut), kContext).complete);
  EXPECT_LT(r.ledger.place(chunk_of(1, kCut / 8, 0, true)).value().early.capacity(), kCut);
}

TEST(ReceiveLedger, AnEagerChunkThatFindsItsReceivePostedReturnsItsCreditOnce) {
  Receiver r;
  r.ledger.post(r.room(100), kContext);
  arrive(r.ledger, chunk_of(0, 100, 0, true));
  EXPECT_EQ(r.ledger.report().eager_total, kPool + kCut);
  arrive(r.ledger, chunk_of(0, 100, 0, true));  // its retransmission
  EXPECT_EQ(r.ledger.report().eager_total, kPool + kCut);
}

TEST(ReceiveLedger, RefusesBytesThatNothingPermits) {
  Receiver r;
  EXPECT_EQ(r.ledger.place(chunk_of(1, 100, 0, false)).status().code(), Code::remote);
  for (uint32_t chunk = 0; chunk < kPool / kCut; ++chunk) {
    arrive(r.ledger, chunk_of(0, 1000, chunk, true));
  }
  EXPECT_EQ(r.ledger.place(chunk_of(0, 1000, 4, true)).status().code(), Code::remote);
  EXPECT_TRUE(r.ledger.place(chunk_of(0, 1000, 3, true)).ok());  // a duplicate needs no room
}

TEST(ReceiveLedger, RefusesMessagesFarAheadAndChunksThatContradictEachOther) {
  Receiver r;
  EXPECT_FALSE(r.ledger.place(chunk_of(limits::kMessagesAheadMax, 10, 0, true)).ok());
  EXPECT_FALSE(r.ledger.place(chunk_of(UINT64_MAX, 10, 0, true)).ok());
  r.ledger.post(r.room(150), kContext);
  arrive(r.ledger, chunk_of(0, 150, 0));
  DataHeader other = chunk_of(0, 150, 0);
  other.chunk_bytes = 75;
  EXPECT_EQ(r.ledger.place(other).status().code(), Code::remote);
  other = chunk_of(0, 151, 1);
  EXPECT_EQ(r.ledger.place(other).status().code(), Code::remote);
  other = chunk_of(0, 150, 1);
  other.context = kContext + 1;
  EXPECT_EQ(r.ledger.place(other).status().code(), Code::remote);
}

TEST(ReceiveLedger, AnEarlyMessageCannotClaimMemoryByItsSize) {
  Receiver r;
  DataHeader huge = chunk_of(0, 0, 0, true);
  huge.message_bytes = limits::kMessageBytesMax;
  huge.payload_bytes = kCut;
  EXPECT_EQ(r.ledger.place(huge).status().code(), Code::remote);
}

struct Mismatch {
  const char* name;
  size_t posted_bytes;
  uint64_t posted_context;
};

// The sender sends 150 bytes for kContext.
class ReceiveLedgerMismatch : public testing::TestWithParam<Mismatch> {};

TEST_P(ReceiveLedgerMismatch, IsReportedOnceByTheFirstChunkAndTheOthersGoNowhere) {
  Receiver r;
  const Mismatch& m = GetParam();
  EXPECT_TRUE(r.ledger.post(r.room(m.posted_bytes), m.posted_context).mismatch.ok());
  EXPECT_EQ(r.ledger.place(chunk_of(0, 150, 0)).status().code(), Code::invalid_usage);
  for (const uint32_t chunk : {0u, 1u, 2u}) {
    const auto place = r.ledger.place(chunk_of(0, 150, chunk));
    ASSERT_TRUE(place.ok());
    EXPECT_EQ(place.value().placement, Placement::discard);
  }
  EXPECT_FALSE(r.ledger.idle());
  EXPECT_TRUE(r.untouched(0));
}

TEST_P(ReceiveLedgerMismatch, IsReportedByTheLaterPostAndNoChunkTouchesItsMemory) {
  Receiver r;
  const Mismatch& m = GetParam();
  arrive(r.ledger, chunk_of(0, 150, 0, true));
  const DataHeader under_way = chunk_of(0, 150, 1, true);
  ASSERT_EQ(r.ledger.place(under_way).value().placement, Placement::early);
  const auto posted = r.ledger.post(r.room(m.posted_bytes), m.posted_context);
  EXPECT_EQ(posted.mismatch.code(), Code::invalid_usage);
  EXPECT_FALSE(posted.complete);
  EXPECT_FALSE(r.ledger.accept(under_way, content(under_way), 1).fresh);
  EXPECT_EQ(r.ledger.place(chunk_of(0, 150, 2)).value().placement, Placement::discard);
  EXPECT_TRUE(r.untouched(0));
}

TEST_P(ReceiveLedgerMismatch, IsNeverAcknowledgedAsComplete) {
  Receiver r;
  const Mismatch& m = GetParam();
  r.ledger.post(r.room(m.posted_bytes), m.posted_context);
  r.ledger.post(std::span(r.memory).subspan(500, 10), kContext);
  EXPECT_FALSE(r.ledger.place(chunk_of(0, 150, 0)).ok());
  EXPECT_TRUE(arrive(r.ledger, chunk_of(1, 10, 0)).message_complete);
  const ChannelReport report = r.ledger.report();
  EXPECT_EQ(report.low_water, MessageNo(0));
  ASSERT_EQ(report.partial.size(), 1u);
  EXPECT_EQ(report.partial[0].message, MessageNo(1));
}

INSTANTIATE_TEST_SUITE_P(All, ReceiveLedgerMismatch,
                         testing::Values(Mismatch{"smaller", 20, kContext},
                                         Mismatch{"larger", 200, kContext},
                                         Mismatch{"none", 0, kContext},
                                         Mismatch{"other_operation", 150, kContext + 1}),
                         [](const auto& mismatch) { return std::string(mismatch.param.name); });

TEST(ReceiveLedger, MessagesOfNoBytesArriveToo) {
  Receiver r;
  r.ledger.post({}, kContext);
  EXPECT_TRUE(arrive(r.ledger, chunk_of(0, 0, 0)).message_complete);
  EXPECT_FALSE(arrive(r.ledger, chunk_of(0, 0, 0)).fresh);
  // Also before their receive is posted: they cost no eager bytes, but count as eager.
  EXPECT_TRUE(arrive(r.ledger, chunk_of(1, 0, 0, true)).fresh);
  EXPECT_TRUE(r.ledger.post({}, kContext).complete);
  EXPECT_EQ(r.ledger.report().low_water, MessageNo(2));
  EXPECT_EQ(r.ledger.report().eager_total, kPool);
}

TEST(ReceiveLedger, ReportsMessagesThatCompletedOutOfOrder) {
  Receiver r;
  r.ledger.post(r.room(100), kContext);
  r.ledger.post(std::span(r.memory).subspan(500, 100), kContext);
  arrive(r.ledger, chunk_of(1, 100, 0));
  EXPECT_TRUE(arrive(r.ledger, chunk_of(1, 100, 1)).message_complete);
  arrive(r.ledger, chunk_of(0, 100, 1));
  const ChannelReport report = r.ledger.report();
  EXPECT_EQ(report.low_water, MessageNo(0));
  EXPECT_EQ(report.posted, MessageNo(2));
  ASSERT_EQ(report.partial.size(), 2u);
  EXPECT_EQ(report.partial[0], (PartialMessage{MessageNo(0), 0, Bytes(1, std::byte{2})}));
  EXPECT_EQ(report.partial[1], (PartialMessage{MessageNo(1), 2, {}}));
  EXPECT_TRUE(arrive(r.ledger, chunk_of(0, 100, 0)).message_complete);
  EXPECT_EQ(r.ledger.report().low_water, MessageNo(2));
  EXPECT_TRUE(r.ledger.report().partial.empty());
}

TEST(ReceiveLedger, ReportsTheChangesBetweenTwoVersions) {
  Receiver r;
  for (int m = 0; m < 4; ++m) r.ledger.post(std::span(r.memory).subspan(0, 100), kContext);
  // In the order of versions: message 1, 3, 2, and 1 again.
  (void)r.ledger.accept(placed(r.ledger, chunk_of(1, 100, 1)), {}, 10);
  (void)r.ledger.accept(placed(r.ledger, chunk_of(3, 100, 0)), {}, 11);
  (void)r.ledger.accept(placed(r.ledger, chunk_of(2, 100, 1)), {}, 12);
  (void)r.ledger.accept(placed(r.ledger, chunk_of(1, 100, 0)), {}, 13);
  const auto reported = [&](uint64_t since, uint64_t up_to) {
    std::vector<uint64_t> messages;
    for (const PartialMessage& m : r.ledger.report(since, up_to).partial) {
      messages.push_back(m.message.value());
    }
    return messages;
  };
  using Messages = std::vector<uint64_t>;
  EXPECT_EQ(reported(0, 13), (Messages{1, 2, 3}));
  EXPECT_EQ(reported(0, 12), (Messages{2, 3})) << "a second change counts as later";
  EXPECT_EQ(reported(11, 13), (Messages{1, 2}));
  EXPECT_EQ(reported(13, 20), Messages{});
  std::vector<ReceiveLedger::Change> changes;
  r.ledger.changes(11, changes);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].version, 13u);
  EXPECT_EQ(changes[0].bytes, kPartialMessageBytes) << "complete: a prefix says it all";
  EXPECT_EQ(changes[1].version, 12u);
  EXPECT_EQ(changes[1].bytes, kPartialMessageBytes + 1);
}

TEST(ReceiveLedger, AStandingReceiveTakesAShorterMessageOfAnyContext) {
  for (const bool early : {false, true}) {
    for (const uint64_t bytes : {0, 1, 150, 200}) {
      Receiver r;
      const ReceiveLedger::Receive standing{r.room(200), kContext + 1, true};
      if (!early) r.ledger.post(standing);
      EXPECT_TRUE(r.ledger.idle());
      const uint64_t chunks = std::max<uint64_t>((bytes + kCut - 1) / kCut, 1);
      for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
        EXPECT_EQ(r.ledger.idle(), early || chunk == 0) << "a message that has begun is awaited";
        const auto part = chunk_of(0, bytes, static_cast<uint32_t>(chunk), early);
        const auto accepted = arrive(r.ledger, part);
        EXPECT_EQ(accepted.message_complete, !early && chunk + 1 == chunks);
      }
      if (early) {
        const auto posted = r.ledger.post(standing);
        EXPECT_TRUE(posted.complete && posted.mismatch.ok());
      }
      EXPECT_TRUE(std::ranges::equal(r.room(bytes), whole(bytes)));
      EXPECT_TRUE(r.untouched(bytes));
      EXPECT_EQ(r.ledger.report().low_water, MessageNo(1));
      r.ledger.check_invariants();
    }
  }
}

TEST(ReceiveLedger, AStandingReceiveRefusesALongerMessage) {
  Receiver r;
  r.ledger.post({r.room(100), kContext, true});
  EXPECT_EQ(r.ledger.place(chunk_of(0, 101, 0)).status().code(), Code::invalid_usage);
  EXPECT_TRUE(r.untouched(0));
}

TEST(ReceiveLedger, MessagesBelowTheLowWaterMarkAreDoneForEver) {
  Receiver r;
  r.ledger.post(r.room(10), kContext);
  arrive(r.ledger, chunk_of(0, 10, 0));
  EXPECT_EQ(r.ledger.place(chunk_of(0, 10, 0)).value().placement, Placement::discard);
  EXPECT_EQ(r.ledger.place(chunk_of(0, 999, 3)).value().placement, Placement::discard);
  EXPECT_FALSE(r.ledger.accept(chunk_of(0, 10, 0), {}, 1).fresh);
}

TEST(ReceiveLedger, CancelDiscardsLaterChunks) {
  Receiver r;
  r.ledger.post(r.room(100), kContext);
  const DataHeader under_way = chunk_of(0, 100, 0);
  ASSERT_EQ(r.ledger.place(under_way).value().placement, Placement::direct);
  r.ledger.cancel();
  EXPECT_TRUE(r.ledger.cancelled());
  EXPECT_TRUE(r.ledger.idle());
  EXPECT_FALSE(r.ledger.accept(under_way, {}, 1).fresh);
  EXPECT_EQ(r.ledger.place(chunk_of(0, 100, 1)).value().placement, Placement::discard);
  EXPECT_EQ(r.ledger.place(chunk_of(5, 100, 1, true)).value().placement, Placement::discard);
}

}  // namespace
}  // namespace r2ccl
