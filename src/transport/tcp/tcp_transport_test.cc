// The guarantees of TCP beyond the conformance suite: devices, addresses as NICs, descriptors,
// forks.
#include "transport/tcp/tcp_transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "testing/new_network.h"
#include "transport/tcp/socket_options.h"

namespace r2ccl {
namespace {

Endpoint endpoint(const char* address, uint16_t port = 0) {
  return {.address = *parse_address(address), .port = port};
}

class TcpTest : public testing::Test {
 protected:
  TcpTest() : transport_(std::move(TcpTransport::open({})).value()) {}

  std::unique_ptr<Listener> listen(const char* address, const std::string& device = "") {
    Result<std::unique_ptr<Listener>> listener = transport_->listen(endpoint(address), device);
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    return listener.ok() ? std::move(listener).value() : nullptr;
  }
  std::unique_ptr<Connection> connect(const Endpoint& remote, const ConnectOptions& options = {}) {
    Result<std::unique_ptr<Connection>> connection = transport_->connect(remote, options);
    EXPECT_TRUE(connection.ok()) << connection.status().message();
    return connection.ok() ? std::move(connection).value() : nullptr;
  }
  // Waits for one event, at most five seconds; returns false when none came.
  bool ready(int poll_id, bool want_write) {
    std::array<PollEvent, 1> events;
    EXPECT_TRUE(transport_->poller().add(poll_id, 1, want_write).ok());
    const size_t count = transport_->poller().wait(events, 5 * kSecond);
    transport_->poller().remove(poll_id);
    return count == 1;
  }
  std::unique_ptr<Connection> accept(Listener& listener) {
    EXPECT_TRUE(ready(listener.poll_id(), false));
    return listener.accept();
  }

  std::unique_ptr<TcpTransport> transport_;
};

TEST_F(TcpTest, AnAddressNicIsTheSourceOfItsConnections) {
  const std::unique_ptr<Listener> listener = listen("127.0.2.2", "lo@127.0.2.2");
  const std::unique_ptr<Connection> connection =
      connect(listener->local(), {.device = "lo@127.0.2.1", .source = {}, .unsent_low_water = 0});
  const std::unique_ptr<Connection> accepted = accept(*listener);
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(to_string(accepted->remote().address), "127.0.2.1");
}

TEST_F(TcpTest, AListenerOfADeviceServesAllItsAddresses) {
  const std::unique_ptr<Listener> listener = transport_->listen({}, "lo").value();
  std::vector<std::string> addresses = {"127.0.0.1", "127.0.9.9"};
  if (transport_->listen(endpoint("::1"), "").ok()) addresses.emplace_back("::1");
  for (const std::string& address : addresses) {
    const std::unique_ptr<Connection> connection =
        connect({*parse_address(address), listener->local().port});
    const std::unique_ptr<Connection> accepted = accept(*listener);
    ASSERT_NE(accepted, nullptr) << address;
    // The handshake limiter knows the peers by their addresses.
    EXPECT_EQ(accepted->remote().address,
              parse_address(address == "127.0.9.9" ? "127.0.0.1" : address));
  }
}

TEST_F(TcpTest, ADeviceThatDoesNotExistIsAFailedConnectionAndNoError) {
  const std::unique_ptr<Connection> connection = connect(
      endpoint("127.0.0.1", 1), {.device = "nosuchnic", .source = {}, .unsent_low_water = 0});
  EXPECT_TRUE(ready(connection->poll_id(), true));
  EXPECT_EQ(connection->connect_state(), ConnectState::failed);
  EXPECT_EQ(connection->connect_error(), ENODEV);
}

// Linux would take the SYN, and then ask for the peer's hardware address once a second.
TEST_F(TcpTest, ANicWithoutACarrierFailsAtOnce) {
  if (!has_iproute2()) GTEST_SKIP() << "needs iproute2";
  const bool entered = in_new_network([&] {
    const auto inside = std::move(TcpTransport::open({})).value();
    ASSERT_TRUE(inside->poller().add(inside->nic_events_poll_id(), 1, false).ok());
    ASSERT_EQ(ip("link add nic0 type veth peer name nic1"), 0);
    ASSERT_EQ(ip("addr add 10.1.2.3/24 dev nic0"), 0);
    ASSERT_EQ(ip("link set nic0 up"), 0);
    const auto error = [&] {
      return connect(endpoint("10.1.2.4", 1), {.device = "nic0", .source = {}})->connect_error();
    };
    EXPECT_EQ(error(), ENETDOWN);
    ASSERT_EQ(ip("link set nic1 up"), 0);
    // The kernel handles the carrier's consequences a moment later; its notice ends the wait.
    for (int i = 0; i < 16 && error() == ENETDOWN; ++i) {
      std::array<PollEvent, 1> events;
      ASSERT_EQ(inside->poller().wait(events, 5 * kSecond), 1u);
      inside->drain_nic_events();
    }
    EXPECT_EQ(error(), 0);
    ASSERT_EQ(ip("link set nic0 down"), 0);
    EXPECT_EQ(error(), ENETDOWN);
  });
  if (!entered) GTEST_SKIP() << "may not make a network namespace";
}

TEST_F(TcpTest, AnAddressThatIsNotOursCannotBeListenedOn) {
  const Result<std::unique_ptr<Listener>> listener =
      transport_->listen(endpoint("192.0.2.77", 4711), "");
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.status().message(),
            "listen on 192.0.2.77:4711: bind: Cannot assign requested address");
  EXPECT_FALSE(transport_->connect({}, {}).ok());
  EXPECT_FALSE(transport_->listen({}, "").ok());
  EXPECT_FALSE(transport_->listen({}, "lo@127.0.2.1").ok());
}

TEST_F(TcpTest, TheSecondBestBindingPrefersADeviceThatExists) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(prefer_device(socket, AddressFamily::ipv4, "lo"), 0);
  EXPECT_EQ(prefer_device(socket, AddressFamily::ipv4, "nosuchnic"), ENODEV);
  EXPECT_EQ(bind_source(socket, *parse_address("127.0.3.1")), 0);
  close(socket);
}

TEST_F(TcpTest, RunningOutOfDescriptorsLeavesTheConnectionInTheBacklog) {
  const std::unique_ptr<Listener> listener = listen("127.0.0.1");
  const std::unique_ptr<Connection> connection = connect(listener->local());
  ASSERT_TRUE(ready(listener->poll_id(), false));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int next_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  close(next_fd);
  const rlimit none_left{.rlim_cur = static_cast<rlim_t>(next_fd), .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  EXPECT_EQ(listener->accept(), nullptr);
  EXPECT_EQ(listener->accept_error(), EMFILE);
  EXPECT_FALSE(transport_->connect(listener->local(), {}).ok());
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(listener->accept(), nullptr);
  EXPECT_EQ(listener->accept_error(), 0);
}

TEST_F(TcpTest, TheLowWaterMarkBoundsTheBytesThatWaitInTheKernel) {
  constexpr uint32_t kLowWater = 32768;
  const std::unique_ptr<Listener> listener = listen("127.0.0.1");
  const std::unique_ptr<Connection> connection =
      connect(listener->local(), {.device = "", .source = {}, .unsent_low_water = kLowWater});
  const std::unique_ptr<Connection> accepted = accept(*listener);
  std::vector<uint8_t> block(16384);
  const iovec slice{block.data(), block.size()};
  while (connection->write({&slice, 1}).kind == IoKind::progressed) {
  }
  // The kernel checks before each of its buffers, of which the last may cross the mark.
  EXPECT_LT(connection->info().unsent_bytes, kLowWater + 65536U);
  EXPECT_GT(connection->info().smoothed_rtt_ns, 0);
  EXPECT_GT(connection->info().acknowledged_bytes, 0u);
  while (connection->info().busy_ns == 0) {  // the kernel counts whole ticks
  }
}

TEST_F(TcpTest, AFilterThatMatchesNothingIsAnErrorThatNamesIt) {
  const auto transport =
      std::move(TcpTransport::open({.nic_filter = {.text = "nosuchnic"}, .unsent_low_water = 0}))
          .value();
  const Result<std::vector<Nic>> nics = transport->nics();
  ASSERT_FALSE(nics.ok());
  EXPECT_EQ(nics.status().message().find("R2CCL_SOCKET_IFNAME=nosuchnic matches no interface"), 0U);
}

// A child that was forked and lives on must not keep the parent's connections open: the peer of a
// killed parent would wait for ever.
TEST_F(TcpTest, AForkedChildHoldsNoneOfOurDescriptors) {
  const std::unique_ptr<Listener> listener = listen("127.0.0.1");
  std::unique_ptr<Connection> connection = connect(listener->local());
  const std::unique_ptr<Connection> accepted = accept(*listener);
  const int fds[] = {listener->poll_id(), connection->poll_id(), accepted->poll_id(),
                     transport_->nic_events_poll_id()};
  int report[2];
  int hold[2];
  ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(hold, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(hold[1]);
    char still_open = 0;
    for (const int fd : fds) still_open = static_cast<char>(still_open + (fcntl(fd, F_GETFD) >= 0));
    // The number may be reused here; the destruction of this process's copy must leave it alone.
    const int reused = dup2(report[1], fds[1]);
    connection.reset();
    if (fcntl(reused, F_GETFD) < 0) still_open = 100;
    char ignored;
    const bool told = write(report[1], &still_open, 1) == 1;
    _exit(told && read(hold[0], &ignored, 1) == 0 ? 0 : 1);  // lives until the parent lets go
  }
  char still_open = -1;
  EXPECT_EQ(read(report[0], &still_open, 1), 1);
  EXPECT_EQ(still_open, 0);
  connection.reset();
  EXPECT_TRUE(ready(accepted->poll_id(), false)) << "the peer hears of the end, child or no child";
  for (const int fd : {report[0], report[1], hold[0], hold[1]}) close(fd);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(TcpTest, ForksWhileOtherThreadsOpenAndCloseLeaveNothingOpen) {
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    while (!stop.load()) {
      const GuardedFd fd = GuardedFd::from([] { return open("/dev/zero", O_RDONLY); });
      EXPECT_TRUE(fd.valid());
    }
  });
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      // A file that only the other thread opens.
      char target[16] = "";
      for (int fd = 3; fd < 64; ++fd) {
        const std::string link = "/proc/self/fd/" + std::to_string(fd);
        const ssize_t length = readlink(link.c_str(), target, sizeof target);
        if (length == 9 && std::string_view(target, 9) == "/dev/zero") _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop.store(true);
  churn.join();
}

}  // namespace
}  // namespace r2ccl
