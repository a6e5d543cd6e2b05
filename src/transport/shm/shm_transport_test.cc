#include "transport/shm/shm_transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include "testing/shm_test.h"
#include "transport/shm/shm_socket.h"

namespace r2ccl {
namespace {

constexpr size_t kFileBytes = 4096 + 2 * kShmRingBytes;

TEST_F(ShmTransportTest, OtherEndpointsBelongToTheTransportBelow) {
  Endpoint loopback;
  loopback.address = *parse_address("127.0.0.1");
  Result<std::unique_ptr<Listener>> listener = transport_->listen(loopback, "");
  ASSERT_TRUE(listener.ok());
  Result<std::unique_ptr<Connection>> connection =
      transport_->connect(listener.value()->local(), {});
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE(transport_->poller().add(connection.value()->poll_id(), 1, true).ok());
  EXPECT_TRUE(wait_ready(*transport_));
  EXPECT_EQ(connection.value()->connect_state(), ConnectState::established);
  transport_->poller().remove(connection.value()->poll_id());
}

TEST_F(ShmTransportTest, AFileThatCouldShrinkOrHasAWrongSizeIsRefused) {
  const auto make = [](size_t bytes, int seals) {
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
    if (seals != 0) {
      EXPECT_EQ(fcntl(file, F_ADD_SEALS, seals), 0);
    }
    return file;
  };
  const int both = F_SEAL_SHRINK | F_SEAL_GROW;
  const struct {
    size_t bytes;
    int seals;
    int error;
  } cases[] = {{kFileBytes, both, 0},
               {kFileBytes, 0, EPROTO},
               {kFileBytes, F_SEAL_SHRINK, EPROTO},
               {kFileBytes, F_SEAL_GROW, EPROTO},
               {kFileBytes - 4096, both, EPROTO},
               {kFileBytes + 4096, both, EPROTO},
               {0, both, EPROTO},
               {kFileBytes, both | F_SEAL_WRITE, EPERM}};
  for (const auto& test : cases) {
    const int file = make(test.bytes, test.seals);
    EXPECT_EQ(error_for(file), test.error) << test.bytes << " bytes, seals " << test.seals;
    close(file);
  }
  const int device = open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(error_for(device), EPROTO) << "not a file that can be sealed";
  close(device);
}

// The file of a connection between two ends in this process.
class ShmSegmentTest : public testing::Test {
 protected:
  ShmSegmentTest() {
    EXPECT_EQ(dialing_.map(file_.get()), 0);
    EXPECT_EQ(accepting_.map(file_.get()), 0);
  }
  int64_t resident_bytes() const {
    struct stat about {};
    EXPECT_EQ(fstat(file_.get(), &about), 0);
    return about.st_blocks * 512;
  }
  const GuardedFd file_ = ShmSegment::make_file();
  ShmSegment dialing_;
  ShmSegment accepting_;
};

TEST_F(ShmSegmentTest, AConnectionWithSmallMessagesTakesAPageForItsStateAndOneForEachDirection) {
  EXPECT_EQ(resident_bytes(), 0);
  ShmRingWriter there = dialing_.writer(ShmEnd::dialing);
  ShmRingReader here = accepting_.reader(ShmEnd::accepting);
  ShmRingWriter back = accepting_.writer(ShmEnd::accepting);
  ShmRingReader answer = dialing_.reader(ShmEnd::dialing);
  std::array<std::byte, 1000> bytes{};
  const iovec one{bytes.data(), bytes.size()};
  for (int round = 0; round < 2000; ++round) {
    ASSERT_EQ(there.write({&one, 1}).bytes, bytes.size());
    here.look();
    ASSERT_EQ(here.read({&one, 1}).bytes, bytes.size());
    ASSERT_EQ(back.write({&one, 1}).bytes, bytes.size());
    answer.look();
    ASSERT_EQ(answer.read({&one, 1}).bytes, bytes.size());
  }
  EXPECT_EQ(resident_bytes(), 3 * sysconf(_SC_PAGESIZE));
}

TEST_F(ShmTransportTest, AGreetingWithoutAFileOrWithOtherBytesIsRefused) {
  const int64_t before = open_descriptors();
  for (const char* text : {"r2shm001", "GET / HTTP/1.1\r\n", "r2s"}) {
    const GuardedFd socket = open_shm_socket();
    ASSERT_EQ(connect_to(socket.get(), listener_->local()), 0);
    ASSERT_GT(send(socket.get(), text, strlen(text), MSG_NOSIGNAL), 0);
    const std::unique_ptr<Connection> accepted = listener_->accept();
    ASSERT_NE(accepted, nullptr);
    const IoResult result = read_some(*accepted);
    EXPECT_EQ(result.kind, IoKind::failed) << text;
    EXPECT_EQ(result.error, EPROTO) << text;
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ShmTransportTest, AConnectionWhoseFileComesLateWorksFromThenOn) {
  const GuardedFd socket = open_shm_socket();
  ASSERT_EQ(connect_to(socket.get(), listener_->local()), 0);
  const std::unique_ptr<Connection> accepted = listener_->accept();
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(read_some(*accepted).kind, IoKind::blocked);
  EXPECT_EQ(write_some(*accepted, 10).kind, IoKind::blocked);
  ASSERT_TRUE(transport_->poller().add(accepted->poll_id(), 1, true).ok());
  EXPECT_FALSE(wait(*transport_, 0));
  const GuardedFd file = ShmSegment::make_file();
  ASSERT_EQ(send_shm_file(socket.get(), file.get()), 0);
  EXPECT_TRUE(wait_ready(*transport_));
  EXPECT_EQ(write_some(*accepted, 10).bytes, 10U);
  transport_->poller().remove(accepted->poll_id());
}

TEST_F(ShmTransportTest, AForgedIndexFailsTheConnectionForGood) {
  const GuardedFd socket = open_shm_socket();
  ASSERT_EQ(connect_to(socket.get(), listener_->local()), 0);
  const GuardedFd file = ShmSegment::make_file();
  auto* const state = static_cast<ShmRingState*>(
      mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_EQ(send_shm_file(socket.get(), file.get()), 0);
  const std::unique_ptr<Connection> accepted = listener_->accept();
  ASSERT_TRUE(transport_->poller().add(accepted->poll_id(), 1, false).ok());
  EXPECT_EQ(write_some(*accepted, 10).bytes, 10U);
  state[0].head.store(kShmRingBytes + 1);
  EXPECT_TRUE(wait_ready(*transport_)) << "the reader must not wait for ever";
  EXPECT_EQ(read_some(*accepted).error, EPROTO);
  state[0].head.store(0);
  EXPECT_EQ(write_some(*accepted, 10).error, EPROTO) << "it stays failed";
  transport_->poller().remove(accepted->poll_id());
  munmap(state, kFileBytes);
}

TEST_F(ShmTransportTest, AProcessOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    const GuardedFd socket = open_shm_socket();
    _exit(connect_to(socket.get(), listener_->local()) == EACCES ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(listener_->accept(), nullptr);
  EXPECT_EQ(listener_->accept_error(), 0);
}

TEST_F(ShmTransportTest, AProcessInAnotherNetworkNamespaceDoesNotReachTheListener) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(77);
    const GuardedFd socket = open_shm_socket();
    _exit(connect_to(socket.get(), listener_->local()) == ECONNREFUSED ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "namespaces are not permitted here";
  EXPECT_EQ(status, 0);
}

TEST_F(ShmTransportTest, AKilledPeerEndsTheConnectionAfterItsLastWholeBytes) {
  const int64_t before = open_descriptors();
  {
    const pid_t child = start_process([&] {
      const std::unique_ptr<ShmTransport> own = open_transport();
      const std::unique_ptr<Connection> connection = connect(*own);
      for (;;) write_some(*connection, 5000);
    });
    ASSERT_TRUE(transport_->poller().add(listener_->poll_id(), 1, false).ok());
    ASSERT_TRUE(wait_ready(*transport_));
    transport_->poller().remove(listener_->poll_id());
    const std::unique_ptr<Connection> accepted = listener_->accept();
    ASSERT_NE(accepted, nullptr);
    ASSERT_TRUE(transport_->poller().add(accepted->poll_id(), 2, false).ok());
    size_t got = 0;
    while (got < 3 * kShmRingBytes) got += read_some(*accepted).bytes;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    IoResult end;
    for (int i = 0; i < 1000 && end.kind != IoKind::failed; ++i) {
      wait(*transport_, kMillisecond);
      end = read_some(*accepted);
    }
    EXPECT_EQ(end.kind, IoKind::failed);
    EXPECT_EQ(end.error, ECONNRESET);
    EXPECT_EQ(write_some(*accepted, 1).kind, IoKind::failed);
    transport_->poller().remove(accepted->poll_id());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ShmTransportTest, EndsThatSleepWakeEachOther) {
  constexpr int kRounds = 5000;
  const std::unique_ptr<ShmTransport> other = open_transport();
  const std::unique_ptr<Connection> a = connect(*other);
  const std::unique_ptr<Connection> b = listener_->accept();
  ASSERT_TRUE(other->poller().add(a->poll_id(), 1, false).ok());
  ASSERT_TRUE(transport_->poller().add(b->poll_id(), 1, false).ok());
  // A lost wake-up costs the whole timeout.
  const auto receive = [](Transport& transport, Connection& connection) {
    while (read_some(connection, 1).bytes == 0) wait(transport, 60 * kSecond);
  };
  const SystemClock clock;
  const TimeNs begin = clock.now();
  std::thread answers([&] {
    for (int i = 0; i < kRounds; ++i) {
      receive(*transport_, *b);
      write_some(*b, 1);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    write_some(*a, 1);
    receive(*other, *a);
  }
  answers.join();
  EXPECT_LT(clock.now() - begin, 30 * kSecond);
  other->poller().remove(a->poll_id());
  transport_->poller().remove(b->poll_id());
}

TEST_F(ShmTransportTest, AWriterThatSleepsWakesWhenTheReaderHasMadeSpace) {
  constexpr size_t kAll = 64 * kShmRingBytes;
  const std::unique_ptr<ShmTransport> other = open_transport();
  const std::unique_ptr<Connection> a = connect(*other);
  const std::unique_ptr<Connection> b = listener_->accept();
  ASSERT_TRUE(other->poller().add(a->poll_id(), 1, true).ok());
  ASSERT_TRUE(transport_->poller().add(b->poll_id(), 1, false).ok());
  std::thread reads([&] {
    for (size_t got = 0; got < kAll;) {
      wait(*transport_, 60 * kSecond);
      got += read_some(*b, 100'000).bytes;
    }
  });
  const SystemClock clock;
  const TimeNs begin = clock.now();
  for (size_t sent = 0; sent < kAll;) {
    wait(*other, 60 * kSecond);
    sent += write_some(*a, std::min<size_t>(kAll - sent, 300'000)).bytes;
  }
  reads.join();
  EXPECT_LT(clock.now() - begin, 30 * kSecond);
  other->poller().remove(a->poll_id());
  transport_->poller().remove(b->poll_id());
}

TEST_F(ShmTransportTest, ATcpSocketIsReportedWhileARingIsAlwaysReady) {
  const std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  write_some(*a, 1);  // never read
  ASSERT_TRUE(transport_->poller().add(b->poll_id(), 1, false).ok());
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  ASSERT_TRUE(transport_->poller().add(pipe_ends[0], 2, false).ok());
  ASSERT_EQ(::write(pipe_ends[1], "", 1), 1);
  const SystemClock clock;
  const TimeNs begin = clock.now();
  bool reported = false;
  while (!reported && clock.now() - begin < 5 * kSecond) {
    std::array<PollEvent, 4> events;
    const size_t count = transport_->poller().wait(events, kSecond);
    for (const PollEvent& event : std::span(events).first(count)) {
      reported = reported || event.token == 2;
    }
  }
  EXPECT_TRUE(reported);
  transport_->poller().remove(pipe_ends[0]);
  transport_->poller().remove(b->poll_id());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(ShmTransportTest, AForkedChildHoldsNeitherTheSocketNorTheMemory) {
  std::unique_ptr<Connection> a = connect(*transport_);
  const std::unique_ptr<Connection> b = listener_->accept();
  int hold[2];
  ASSERT_EQ(pipe2(hold, O_CLOEXEC), 0);
  ASSERT_TRUE(transport_->poller().add(b->poll_id(), 1, true).ok());
  const int fds[] = {a->poll_id(), b->poll_id(), listener_->poll_id()};
  const pid_t child = fork();
  if (child == 0) {
    close(hold[1]);
    bool clean = !wait(*transport_, kMillisecond);
    clean =
        clean && read_some(*a).kind == IoKind::failed && write_some(*b, 1).kind == IoKind::failed;
    for (const int fd : fds) clean = clean && fcntl(fd, F_GETFD) < 0;
    a.reset();  // touches no memory that is not there
    char ignored;
    _exit(::read(hold[0], &ignored, 1) == 0 && clean ? 0 : 1);  // lives until the parent lets go
  }
  EXPECT_EQ(write_some(*a, 10).bytes, 10U);
  EXPECT_EQ(read_some(*b).bytes, 10U) << "the child has closed nothing of ours";
  transport_->poller().remove(b->poll_id());
  a.reset();
  EXPECT_EQ(read_some(*b).kind, IoKind::failed);
  close(hold[0]);
  close(hold[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace r2ccl
