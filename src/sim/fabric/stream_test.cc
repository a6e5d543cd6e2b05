#include "sim/fabric/stream.h"

#include <gtest/gtest.h>

#include "sim/fabric/event_queue.h"
#include "testing/test_pair.h"

namespace r2ccl::sim {
namespace {

size_t write(Stream& stream, std::vector<std::byte> bytes) {
  const iovec slice = slice_of(bytes);
  return stream.write({&slice, 1});
}

TEST(Stream, GathersAndScattersAcrossTheEndOfItsRing) {
  RingPool rings;
  Stream stream({}, 0, rings);
  const auto bytes = pattern_bytes(100'000);
  std::vector<std::byte> got;
  for (size_t at = 0; at < bytes.size();) {
    const size_t step = std::min<size_t>(3001, bytes.size() - at);
    auto* base = const_cast<std::byte*>(bytes.data());
    const iovec slices[] = {{base + at, step / 2}, {base + at + step / 2, step - step / 2}};
    ASSERT_EQ(stream.write(slices), step);
    at += step;
    while (stream.sendable() > 0) stream.on_segment(stream.take_segment(0));
    stream.on_ack(stream.make_ack(), 0);
    std::vector<std::byte> first(1000), second(5000);
    const iovec into[] = {slice_of(first), slice_of(second)};
    const size_t count = stream.read(into);
    first.insert(first.end(), second.begin(), second.end());
    got.insert(got.end(), first.begin(), first.begin() + static_cast<ptrdiff_t>(count));
  }
  EXPECT_EQ(got, bytes);
}

TEST(Stream, GivesItsMemoryToOthersOnceAllBytesAreTaken) {
  RingPool rings;
  Stream stream({}, 0, rings);
  const auto bytes = pattern_bytes(5000);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(write(stream, bytes), bytes.size());
    stream.on_segment(stream.take_segment(0));
    stream.on_ack(stream.make_ack(), 0);
    std::vector<std::byte> got(bytes.size());
    const iovec into = slice_of(got);
    const iovec half{got.data(), got.size() / 2};
    EXPECT_EQ(stream.read({&half, 1}), got.size() / 2);
    EXPECT_EQ(rings.unused(), 0u) << "the rest still waits";
    const iovec rest{got.data() + got.size() / 2, into.iov_len};
    EXPECT_EQ(stream.read({&rest, 1}), got.size() / 2);
    EXPECT_EQ(got, bytes);
    EXPECT_EQ(rings.unused(), 1u);
  }
}

TEST(Stream, BytesInPlaceAreReadFromTheirSourceUntilItIsReleased) {
  RingPool rings;
  Stream stream({}, 0, rings);
  const std::vector<std::byte> header(10, std::byte{9});
  std::vector<std::byte> source(1000, std::byte{1});
  ASSERT_EQ(write(stream, header), header.size());
  ASSERT_EQ(write(stream, source), source.size());
  stream.keep_in_place(stream.written(), source);
  ASSERT_EQ(write(stream, header), header.size());
  while (stream.sendable() > 0) stream.on_segment(stream.take_segment(0));
  std::ranges::fill(source, std::byte{2});
  std::vector<std::byte> got(2000);
  iovec into = slice_of(got);
  EXPECT_EQ(stream.skip(5), 0u);
  EXPECT_EQ(stream.read({&into, 1}), header.size()) << "a read ends before bytes in place";
  into.iov_len = 100;
  size_t fetched = 0;
  EXPECT_EQ(stream.read({&into, 1}, [&](auto bytes) { fetched += bytes.size(); }), 100u);
  EXPECT_EQ(fetched, 100u);
  EXPECT_EQ(got[99], std::byte{2});
  EXPECT_EQ(stream.skip(50), 50u);
  stream.release();
  into.iov_len = 2000;
  EXPECT_EQ(stream.read({&into, 1}), 850 + header.size()) << "and goes on behind them";
  EXPECT_EQ(got[849], std::byte{1}) << "as they were written";
  EXPECT_EQ(got[850], std::byte{9});
}

TEST(Stream, TimesRoundTripsOfBytesThatWereSentOnce) {
  RingPool rings;
  Stream stream({.initial_window_bytes = 64 * 1024, .segment_bytes = 16 * 1024}, 0, rings);
  EXPECT_EQ(stream.smoothed_round_trip(), 0);
  ASSERT_EQ(write(stream, pattern_bytes(64 * 1024)), 64u * 1024);
  stream.on_segment(stream.take_segment(1000));
  EXPECT_TRUE(stream.on_ack(stream.make_ack(), 9000));
  EXPECT_EQ(stream.smoothed_round_trip(), 8000);
  stream.on_segment(stream.take_segment(10'000));
  EXPECT_TRUE(stream.on_ack(stream.make_ack(), 26'000));
  EXPECT_EQ(stream.smoothed_round_trip(), 9000) << "an eighth of the way to 16 us";
  EXPECT_EQ(stream.least_round_trip(), 8000);
  stream.take_segment(30'000);  // lost
  stream.on_timeout();
  stream.on_segment(stream.take_segment(900'000));
  EXPECT_TRUE(stream.on_ack(stream.make_ack(), 990'000));
  EXPECT_EQ(stream.smoothed_round_trip(), 9000) << "which of the two was acknowledged is unknown";
}

TEST(Stream, ASegmentBeyondALostOneIsNotReadableAndTheLossIsRepairedOnce) {
  RingPool rings;
  Stream stream({.initial_window_bytes = 64 * 1024}, 0, rings);
  ASSERT_EQ(write(stream, pattern_bytes(64 * 1024)), 64u * 1024);
  stream.take_segment(0);  // lost
  const Segment second = stream.take_segment(0);
  const Segment third = stream.take_segment(0);
  EXPECT_FALSE(stream.on_segment(second));
  EXPECT_TRUE(stream.on_ack(stream.make_ack(), 0));  // a repeated acknowledgement: go back
  EXPECT_FALSE(stream.on_segment(third));
  EXPECT_FALSE(stream.on_ack(stream.make_ack(), 0));  // not twice
  EXPECT_EQ(stream.take_segment(0).offset, 0u);
  EXPECT_EQ(stream.packets().retransmitted, 1u);
}

// Delivers everything that the stream may send, and acknowledges it.
void round_trip(Stream& stream) {
  while (stream.sendable() > 0) stream.on_segment(stream.take_segment(0));
  stream.on_ack(stream.make_ack(), 0);
}

TEST(Stream, ItsWindowDoublesEachRoundTripUpToTheBufferAndOnlyWhileItLimits) {
  const StreamLimits limits{.send_buffer_bytes = 1 << 20, .receive_buffer_bytes = 1 << 20};
  RingPool rings;
  Stream stream(limits, 0, rings);
  const uint64_t first = stream.congestion_window();
  ASSERT_EQ(write(stream, pattern_bytes(1000)), 1000u);
  round_trip(stream);
  EXPECT_EQ(stream.congestion_window(), first) << "a short write shows nothing";
  std::vector<std::byte> buffer(1 << 20);
  const iovec into = slice_of(buffer);
  for (uint64_t wanted = 2 * first; wanted < limits.send_buffer_bytes; wanted *= 2) {
    write(stream, pattern_bytes(limits.send_buffer_bytes));
    round_trip(stream);
    EXPECT_EQ(stream.congestion_window(), wanted);
    stream.read({&into, 1});
  }
}

TEST(Stream, ALossHalvesItsWindowAndATimeoutLeavesOneSegment) {
  RingPool rings;
  Stream stream({.initial_window_bytes = 128 * 1024}, 0, rings);
  write(stream, pattern_bytes(128 * 1024));
  stream.take_segment(0);  // lost
  while (stream.sendable() > 0) stream.on_segment(stream.take_segment(0));
  stream.on_ack(stream.make_ack(), 0);
  EXPECT_EQ(stream.congestion_window(), 64u * 1024);
  while (stream.sendable() > 0) stream.take_segment(0);  // lost, too
  stream.on_timeout();
  EXPECT_EQ(stream.congestion_window(), StreamLimits{}.segment_bytes);
}

TEST(Stream, ASmallSegmentCountsAsAPacketWhenItIsSentAndWhenItIsDelivered) {
  RingPool rings;
  Stream stream({}, 0, rings);
  for (uint64_t packets = 1; packets <= 5; ++packets) {
    write(stream, pattern_bytes(20));
    stream.take_segment(0);
    EXPECT_EQ(stream.packets().sent, packets);
    EXPECT_EQ(stream.packets().delivered, packets - 1);
    stream.on_segment({20 * (packets - 1), 20});
    stream.on_ack(stream.make_ack(), 0);
    EXPECT_EQ(stream.packets().delivered, packets);
  }
  write(stream, pattern_bytes(14'480));
  stream.take_segment(0);
  EXPECT_EQ(stream.packets().sent, 15u);
}

TEST(Stream, TheEndIsSeenAfterTheLastByte) {
  RingPool rings;
  Stream stream({}, 0, rings);
  write(stream, pattern_bytes(10));
  stream.finish();
  stream.on_segment(stream.take_segment(0));
  EXPECT_FALSE(stream.ended());
  std::vector<std::byte> buffer(100);
  const iovec slice = slice_of(buffer);
  EXPECT_EQ(stream.read({&slice, 1}), 10u);
  EXPECT_TRUE(stream.ended());
}

TEST(EventQueue, EventsOfOneTimeRunInTheOrderOfScheduling) {
  EventQueue queue;
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) {
    queue.schedule(1000 - i % 3, [&ran, i] { ran.push_back(i); });
  }
  while (!queue.empty()) queue.pop()();
  ASSERT_EQ(ran.size(), 100u);
  for (size_t i = 1; i < ran.size(); ++i) {
    const bool later_time = ran[i] % 3 < ran[i - 1] % 3;
    EXPECT_TRUE(later_time || (ran[i] % 3 == ran[i - 1] % 3 && ran[i] > ran[i - 1]));
  }
}

}  // namespace
}  // namespace r2ccl::sim
