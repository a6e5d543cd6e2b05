// Bytes that stay in the sender's memory until the reader fetches them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "testing/shm_test.h"

namespace r2ccl {
namespace {

using ShmInPlaceTest = ShmTransportTest;

constexpr size_t kLarge = 2 * kShmInPlaceBytes;

// A frame whose payload may stay in place.
struct Frame {
  std::vector<uint8_t> head = std::vector<uint8_t>(64, 7);
  std::vector<uint8_t> payload;
  explicit Frame(uint8_t value, size_t bytes = kLarge) : payload(bytes, value) {}
  IoResult send(Connection& connection) {
    const std::array<iovec, 2> parts = {iovec{head.data(), head.size()},
                                        iovec{payload.data(), payload.size()}};
    return connection.send(parts);
  }
};

IoResult read_exactly(Connection& connection, std::vector<uint8_t>& into, size_t bytes) {
  into.resize(bytes);
  const iovec one{into.data(), bytes};
  return connection.read({&one, 1});
}

TEST_F(ShmInPlaceTest, LargePayloadIsReadWhereItIsAndSmallPayloadIsNot) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  EXPECT_TRUE(a->sends_in_place(kShmInPlaceBytes));
  EXPECT_FALSE(a->sends_in_place(kShmInPlaceBytes - 1));
  for (const bool large : {true, false}) {
    Frame frame(1, large ? kLarge : 1000);
    ASSERT_EQ(frame.send(*a).bytes, 64 + frame.payload.size());
    std::ranges::fill(frame.payload, uint8_t{2});
    std::vector<uint8_t> got;
    ASSERT_EQ(read_exactly(*b, got, 64).bytes, 64U);
    EXPECT_EQ(got, frame.head);
    ASSERT_EQ(read_exactly(*b, got, frame.payload.size()).bytes, frame.payload.size());
    EXPECT_EQ(got, std::vector<uint8_t>(frame.payload.size(), large ? 2 : 1));
  }
}

TEST_F(ShmInPlaceTest, BothEndsReadInPlaceOnceEachHasReadTheOthersFirstBytes) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  EXPECT_FALSE(b->sends_in_place(kLarge)) << "the other end has not tried it yet";
  write_some(*b, 1);
  read_some(*a);
  EXPECT_TRUE(b->sends_in_place(kLarge));
}

TEST_F(ShmInPlaceTest, FramesInPlaceAndInTheRingComeInOrderHoweverSmallTheReadsAre) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  for (const size_t grain : {size_t{1000}, size_t{65}, size_t{50'000}, size_t{1} << 20}) {
    std::vector<Frame> frames;
    std::vector<uint8_t> sent;
    for (int i = 0; i < 20; ++i) {
      Frame& frame = frames.emplace_back(static_cast<uint8_t>(i), i % 3 == 0 ? 3000 : kLarge + i);
      sent.insert(sent.end(), frame.head.begin(), frame.head.end());
      sent.insert(sent.end(), frame.payload.begin(), frame.payload.end());
    }
    for (Frame& frame : frames) ASSERT_EQ(frame.send(*a).bytes, 64 + frame.payload.size());
    std::vector<uint8_t> got;
    std::vector<uint8_t> part;
    while (got.size() < sent.size()) {
      const IoResult result = read_exactly(*b, part, grain);
      ASSERT_EQ(result.kind, IoKind::progressed);
      got.insert(got.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(result.bytes));
    }
    EXPECT_TRUE(got == sent) << grain;
  }
}

TEST_F(ShmInPlaceTest, AReadOfPayloadInPlaceGoesOnWithTheNextHeader) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  Frame first(1);
  Frame second(2);
  first.send(*a);
  second.send(*a);
  EXPECT_EQ(read_some(*b, 1 << 20).bytes, 64U) << "a read from the ring ends before the payload";
  EXPECT_EQ(read_some(*b, 1 << 20).bytes, kLarge + 64);
  EXPECT_EQ(read_some(*b, 1 << 20).bytes, kLarge);
}

TEST_F(ShmInPlaceTest, MoreFramesThanReferencesGoThroughTheRing) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  Frame frame(1);
  for (size_t i = 0; i < kShmReferences; ++i) ASSERT_EQ(frame.send(*a).bytes, 64 + kLarge);
  EXPECT_FALSE(a->sends_in_place(kLarge));
  size_t sent = kShmReferences * (64 + kLarge);
  sent += frame.send(*a).bytes;
  size_t got = 0;
  while (const size_t bytes = read_some(*b).bytes) got += bytes;
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(a->sends_in_place(kLarge));
}

TEST_F(ShmInPlaceTest, APollerReportsPayloadInPlaceAndWakesASleeper) {
  const std::unique_ptr<ShmTransport> other = open_transport();
  const std::unique_ptr<Connection> a = connect(*other);
  const std::unique_ptr<Connection> b = listener_->accept();
  ASSERT_TRUE(transport_->poller().add(b->poll_id(), 1, false).ok());
  Frame frame(1);
  const SystemClock clock;
  const TimeNs begin = clock.now();
  std::thread sends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const iovec payload{frame.payload.data(), frame.payload.size()};
    EXPECT_EQ(a->send({&payload, 1}).bytes, kLarge);
  });
  EXPECT_TRUE(wait(*transport_, 60 * kSecond));
  sends.join();
  EXPECT_LT(clock.now() - begin, 30 * kSecond);
  EXPECT_EQ(read_some(*b, kLarge).bytes, kLarge);
  EXPECT_FALSE(wait(*transport_, 0));
  transport_->poller().remove(b->poll_id());
}

TEST_F(ShmInPlaceTest, ASenderThatEndsTakesItsPayloadWithIt) {
  std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  Frame frame(1);
  frame.send(*a);
  a.reset();
  EXPECT_EQ(read_some(*b).bytes, 64U);
  const IoResult end = read_some(*b);
  EXPECT_EQ(end.kind, IoKind::failed);
  EXPECT_EQ(end.error, ECONNRESET);
}

TEST_F(ShmInPlaceTest, MemoryThatTheSenderTookAwayFailsTheConnectionAndLaterOnesUseTheRing) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  void* const memory =
      mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const iovec payload{memory, kLarge};
  ASSERT_EQ(a->send({&payload, 1}).bytes, kLarge);
  munmap(memory, kLarge);
  EXPECT_EQ(read_some(*b).error, EFAULT);
  const std::unique_ptr<Connection> c = connect(*transport_);
  const std::unique_ptr<Connection> d = listener_->accept();
  EXPECT_FALSE(c->sends_in_place(kLarge));
  EXPECT_EQ(write_some(*c, 1000).bytes, 1000U);
  EXPECT_EQ(read_some(*d).bytes, 1000U);
}

TEST_F(ShmInPlaceTest, WithoutDirectReadsAtEitherEndAllGoesThroughTheRing) {
  const std::unique_ptr<ShmTransport> rings = open_transport(false);
  const std::unique_ptr<Connection> a = connect(*rings);
  const std::unique_ptr<Connection> b = listener_->accept();
  write_some(*b, 1);
  read_some(*a);
  EXPECT_FALSE(a->sends_in_place(kLarge));
  EXPECT_FALSE(b->sends_in_place(kLarge));
  Frame frame(1);
  ASSERT_EQ(frame.send(*a).bytes, 64 + kLarge);
  std::ranges::fill(frame.payload, uint8_t{2});
  std::vector<uint8_t> got;
  ASSERT_EQ(read_exactly(*b, got, 64 + kLarge).bytes, 64 + kLarge);
  EXPECT_EQ(got.back(), 1);
}

TEST_F(ShmInPlaceTest, AKilledSendersPayloadIsNotRead) {
  const pid_t child = start_process([&] {
    const std::unique_ptr<ShmTransport> own = open_transport();
    const std::unique_ptr<Connection> connection = connect(*own);
    while (!connection->sends_in_place(kLarge)) std::this_thread::yield();
    Frame frame(1);
    frame.send(*connection);
    pause();
  });
  ASSERT_TRUE(transport_->poller().add(listener_->poll_id(), 1, false).ok());
  ASSERT_TRUE(wait_ready(*transport_));
  transport_->poller().remove(listener_->poll_id());
  const std::unique_ptr<Connection> accepted = listener_->accept();
  ASSERT_NE(accepted, nullptr);
  std::vector<uint8_t> got;
  while (read_exactly(*accepted, got, 64).bytes == 0) std::this_thread::yield();
  EXPECT_EQ(read_exactly(*accepted, got, 1000).bytes, 1000U);
  EXPECT_EQ(got, std::vector<uint8_t>(1000, 1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const IoResult end = read_exactly(*accepted, got, 1000);
  EXPECT_EQ(end.kind, IoKind::failed);
  EXPECT_EQ(end.error, ECONNRESET);
}

// A process that may not be traced: its peer finds that out, and the bytes go through the ring.
int pass_frame_from_a_process_that_may_not_be_read() {
  if (setuid(65534) != 0) return 77;
  Endpoint where;
  where.address.family = AddressFamily::local;
  const auto pid = static_cast<uint32_t>(getpid());
  std::memcpy(where.address.bytes.data(), &pid, sizeof pid);
  const SystemClock clock;
  ShmTransport transport(TcpTransport::open({}).value(), clock);
  const std::unique_ptr<Listener> listener = transport.listen(where, "").value();
  const Endpoint local = listener->local();
  const pid_t sender = start_process([&] {
    if (prctl(PR_SET_DUMPABLE, 0) != 0) _exit(1);
    ShmTransport own(TcpTransport::open({}).value(), clock);
    const std::unique_ptr<Connection> connection = own.connect(local, {}).value();
    Frame frame(1);
    size_t sent = 0;
    while (sent == 0) sent = frame.send(*connection).bytes;
    if (sent != 64 + kLarge) _exit(1);
    std::ranges::fill(frame.payload, uint8_t{2});
    pause();
  });
  std::unique_ptr<Connection> accepted;
  while (accepted == nullptr) accepted = listener->accept();
  std::vector<uint8_t> got;
  std::vector<uint8_t> part;
  while (got.size() < 64 + kLarge) {
    const IoResult result = read_exactly(*accepted, part, kLarge);
    if (result.kind == IoKind::failed) break;
    got.insert(got.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(result.bytes));
  }
  kill(sender, SIGKILL);
  waitpid(sender, nullptr, 0);
  return got.size() == 64 + kLarge && got.back() == 1 ? 0 : 1;
}

TEST_F(ShmInPlaceTest, WhereTheKernelForbidsReadsAllGoesThroughTheRing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a user without rights";
  const pid_t child =
      start_process([] { _exit(pass_frame_from_a_process_that_may_not_be_read()); });
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace r2ccl
