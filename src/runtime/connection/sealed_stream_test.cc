#include "runtime/connection/sealed_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/bootstrap/rendezvous_messages.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

// Writes to one buffer and reads from another. The test holds both.
class Pipe final : public Connection {
 public:
  Pipe(Bytes& in, Bytes& out) : in_(in), out_(out) {}
  ConnectState connect_state() override { return ConnectState::established; }
  int connect_error() const override { return 0; }
  IoResult read(std::span<const iovec> slices) override {
    if (in_.empty()) return {};
    const size_t count = std::min(in_.size(), slices[0].iov_len);
    std::memcpy(slices[0].iov_base, in_.data(), count);
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(count));
    return {IoKind::progressed, count, 0};
  }
  // Takes a short write each time, so that every message goes out in pieces.
  IoResult write(std::span<const iovec> slices) override {
    const size_t count = std::min<size_t>(7, slices[0].iov_len);
    const auto* bytes = static_cast<const std::byte*>(slices[0].iov_base);
    out_.insert(out_.end(), bytes, bytes + count);
    return {IoKind::progressed, count, 0};
  }
  ConnectionInfo info() const override { return {}; }
  Endpoint remote() const override { return {}; }
  int poll_id() const override { return 0; }

 private:
  Bytes& in_;
  Bytes& out_;
};

class SealedStreamTest : public testing::Test {
 protected:
  SealedStream make(Bytes& in, Bytes& out, uint8_t send_key, uint8_t receive_key,
                    Bytes leftover = {}, uint32_t body_bytes_max = 1000) {
    EstablishedConnection established;
    established.connection = std::make_unique<Pipe>(in, out);
    established.session.send_key.fill(std::byte{send_key});
    established.session.receive_key.fill(std::byte{receive_key});
    established.leftover = std::move(leftover);
    return SealedStream(std::move(established), body_bytes_max);
  }
  static SealedStream::Body body(size_t size, uint8_t value = 5) {
    return std::make_shared<Bytes>(size, std::byte{value});
  }
  // The bytes of two messages.
  Bytes two_messages() {
    SealedStream sender = make(nothing_, wire_, 1, 2);
    sender.send(10, body(100));
    sender.send(11, body(0));
    EXPECT_TRUE(sender.pump().ok());
    EXPECT_FALSE(sender.wants_write());
    return wire_;
  }

  Bytes nothing_;
  Bytes wire_;
  Bytes back_;
};

TEST_F(SealedStreamTest, DeliversMessagesInOrderAlsoThoseReadWithTheHandshake) {
  Bytes bytes = two_messages();
  Bytes rest(bytes.begin() + 50, bytes.end());
  bytes.resize(50);
  SealedStream receiver = make(rest, back_, 2, 1, bytes);
  ASSERT_TRUE(receiver.pump().ok());
  const auto first = receiver.next();
  const auto second = receiver.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->type, 10);
  EXPECT_EQ(first->body, *body(100));
  EXPECT_EQ(second->type, 11);
  EXPECT_TRUE(second->body.empty());
  EXPECT_FALSE(receiver.next());
}

TEST_F(SealedStreamTest, DeliversNothingThatWasAltered) {
  const Bytes good = two_messages();
  const size_t first_bytes = good.size() - 32;  // the second has a header and a MAC only
  for (size_t i = 0; i < first_bytes; ++i) {
    Bytes bytes = good;
    bytes[i] ^= std::byte{4};
    SealedStream receiver = make(bytes, back_, 2, 1);
    const Status status = receiver.pump();
    EXPECT_FALSE(receiver.next()) << "byte " << i;
    // A larger body size only waits for more bytes.
    EXPECT_TRUE(!status.ok() || (i >= 4 && i < 8)) << "byte " << i;
  }
}

TEST_F(SealedStreamTest, RefusesARepeatedAndALeftOutMessage) {
  const Bytes good = two_messages();
  Bytes repeated(good.begin(), good.end() - 32);
  const Bytes once = repeated;
  repeated.insert(repeated.end(), once.begin(), once.end());
  SealedStream receiver = make(repeated, back_, 2, 1);
  EXPECT_FALSE(receiver.pump().ok());
  EXPECT_TRUE(receiver.next());  // the first message was good
  EXPECT_FALSE(receiver.next());

  Bytes second(good.end() - 32, good.end());
  SealedStream other = make(second, back_, 2, 1);
  EXPECT_FALSE(other.pump().ok());
}

TEST_F(SealedStreamTest, RefusesAMessageSentBackToItsSender) {
  Bytes bytes = two_messages();
  SealedStream receiver = make(bytes, back_, 1, 2);
  EXPECT_FALSE(receiver.pump().ok());
  EXPECT_FALSE(receiver.next());
}

TEST_F(SealedStreamTest, AListenerReadsNothing) {
  SealedStream sender = make(nothing_, wire_, 1, 2);
  sender.send(10, LockedBytes::copy_of(*body(32, 77)));
  ASSERT_TRUE(sender.pump().ok());
  EXPECT_EQ(wire_.size(), 16u + 32u + 16u);
  // Some byte is 77 by chance. Four in a row are 77 once in 2^32.
  const Bytes plain(4, std::byte{77});
  EXPECT_EQ(std::search(wire_.begin(), wire_.end(), plain.begin(), plain.end()), wire_.end());
  SealedStream receiver = make(wire_, back_, 2, 1);
  ASSERT_TRUE(receiver.pump().ok());
  EXPECT_EQ(receiver.next()->body, *body(32, 77));
}

TEST_F(SealedStreamTest, AMessageOfManyRecordsArrivesWholeAndOthersKeepTheirOrder) {
  const SealedStream::Body large = [] {
    Bytes bytes(100'000);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 7);
    return std::make_shared<Bytes>(bytes);
  }();
  SealedStream sender = make(nothing_, wire_, 1, 2);
  sender.send(9, body(3));
  sender.send(10, large);
  sender.send(11, body(5));
  ASSERT_TRUE(sender.pump().ok());
  Bytes cut = wire_;
  SealedStream receiver = make(wire_, back_, 2, 1, {}, 100'000);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(receiver.pump().ok());
  EXPECT_EQ(receiver.next()->type, 9);
  EXPECT_EQ(receiver.next()->body, *large);
  EXPECT_EQ(receiver.next()->type, 11);

  // Leaves out one record of the large message.
  const auto hole = cut.begin() + 35 + 16 * 1024 + 32;
  cut.erase(hole, hole + 16 * 1024 + 32);
  SealedStream robbed = make(cut, back_, 2, 1, {}, 100'000);
  EXPECT_FALSE(robbed.pump().ok());
  EXPECT_TRUE(robbed.next());
  EXPECT_FALSE(robbed.next());
}

TEST_F(SealedStreamTest, RefusesABodyBeyondItsBoundBeforeItArrives) {
  SealedStream sender = make(nothing_, wire_, 1, 2);
  sender.send(10, body(1001));
  ASSERT_TRUE(sender.pump().ok());
  wire_.resize(16);
  SealedStream receiver = make(wire_, back_, 2, 1);
  EXPECT_FALSE(receiver.pump().ok());
}

TEST_F(SealedStreamTest, AndTheMessagesOfTheRendezvousSurviveRandomAndDamagedInput) {
  RankInfo info;
  info.rank = Rank(0);
  Arrival arrival;
  arrival.rank_count = 2;
  arrival.info = encode(info).value();
  const std::array<std::span<const std::byte>, 1> rank_table{arrival.info};
  const std::array<Bytes, 4> good{encode(arrival), encode_table(rank_table),
                                  encode_refused({Code::timeout, "too late"}), two_messages()};
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const size_t kind = random() % good.size();
    Bytes input = random() % 3 == 0 ? Bytes(random() % 200) : good[kind];
    for (uint64_t flips = random() % 4; flips > 0 && !input.empty(); --flips) {
      input[random() % input.size()] = static_cast<std::byte>(random());
    }
    input.resize(input.size() - random() % (input.size() + 1) / 2);
    if (kind < 3) {
      input.insert(input.begin(), static_cast<std::byte>(kind + 3 * (random() % 64)));
      fuzz_rendezvous_messages(input);
    } else {
      input.insert(input.begin(), {std::byte{0}, static_cast<std::byte>(random())});
      fuzz_sealed_stream(input);
    }
  }
}

}  // namespace
}  // namespace r2ccl
