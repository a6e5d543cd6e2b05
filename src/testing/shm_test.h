// For tests of the shared-memory transport: a transport with a listener, and processes.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "transport/shm/shm_socket.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {

inline int64_t open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  int64_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

class ShmTransportTest : public testing::Test {
 protected:
  static std::unique_ptr<ShmTransport> open_transport(bool direct = true) {
    static const SystemClock clock;
    Result<std::unique_ptr<TcpTransport>> below = TcpTransport::open({});
    EXPECT_TRUE(below.ok());
    return std::make_unique<ShmTransport>(std::move(below).value(), clock, direct);
  }
  ShmTransportTest() : transport_(open_transport()) {
    Endpoint where;
    where.address.family = AddressFamily::local;
    const auto pid = static_cast<uint32_t>(getpid());
    std::memcpy(where.address.bytes.data(), &pid, sizeof pid);
    Result<std::unique_ptr<Listener>> listener = transport_->listen(where, "");
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(listener).value();
  }

  std::unique_ptr<Connection> connect(Transport& transport) {
    Result<std::unique_ptr<Connection>> connection = transport.connect(listener_->local(), {});
    EXPECT_TRUE(connection.ok()) << connection.status().message();
    return std::move(connection).value();
  }
  static IoResult read_some(Connection& connection, size_t most = 65536) {
    std::vector<uint8_t> buffer(most);
    const iovec one{buffer.data(), buffer.size()};
    return connection.read({&one, 1});
  }
  static IoResult write_some(Connection& connection, size_t bytes) {
    std::vector<uint8_t> buffer(bytes);
    const iovec one{buffer.data(), buffer.size()};
    return connection.write({&one, 1});
  }
  static bool wait(Transport& transport, TimeNs timeout_ns) {
    std::array<PollEvent, 4> events;
    return transport.poller().wait(events, timeout_ns) > 0;
  }
  // Waits until the poller reports something, five seconds at most.
  static bool wait_ready(Transport& transport) {
    for (int i = 0; i < 100; ++i) {
      if (wait(transport, 50 * kMillisecond)) return true;
    }
    return false;
  }

  // Passes a file as a stranger would, and returns the error of the accepted connection.
  int error_for(int file) {
    const GuardedFd socket = open_shm_socket();
    EXPECT_EQ(connect_to(socket.get(), listener_->local()), 0);
    EXPECT_EQ(send_shm_file(socket.get(), file), 0);
    const std::unique_ptr<Connection> accepted = listener_->accept();
    if (accepted == nullptr) return -1;
    const IoResult result = read_some(*accepted);
    return result.kind == IoKind::failed ? result.error : 0;
  }

  std::unique_ptr<ShmTransport> transport_;
  std::unique_ptr<Listener> listener_;
};

// Runs `work` in a process of its own, which then exits without any destructor.
template <typename Work>
pid_t start_process(Work work) {
  const pid_t child = fork();
  if (child != 0) return child;
  work();
  _exit(0);
}

}  // namespace r2ccl
