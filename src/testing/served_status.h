// For tests: a status server on a real socket and a real poller, with a clock that the test moves,
// and a client of it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/admin/status_server.h"
#include "testing/scripted_link.h"
#include "transport/tcp/tcp_poller.h"

#include <unistd.h>

namespace r2ccl::status_test {

inline sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

// A client process.
class Client {
 public:
  explicit Client(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(path);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool say(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Reads the available bytes, at most `bytes_max`.
  void read(size_t bytes_max = SIZE_MAX) {
    std::vector<char> part(256 * 1024);
    while (!ended_ && heard_.size() < bytes_max) {
      const ssize_t count = recv(socket_, part.data(), std::min(part.size(), bytes_max), 0);
      if (count < 0 && errno == EAGAIN) return;
      ended_ = count <= 0;
      if (count > 0) heard_.append(part.data(), static_cast<size_t>(count));
    }
  }
  bool ended() const { return ended_; }
  const std::string& heard() const { return heard_; }
  void leave() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string heard_;
};

class Served : public testing::Test, protected StatusSource {
 protected:
  Served() {
    std::string pattern = testing::TempDir() + "r2ccl_status.XXXXXX";
    root_ = mkdtemp(pattern.data());
    directory_ = root_ + "/place";
    auto socket = StatusSocket::open(directory_, {11, 22, Rank(3)});
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    path_ = socket.value().path();
    server_ = std::make_unique<StatusServer>(static_cast<StatusSource&>(*this), reactor_, clock_);
    EXPECT_TRUE(server_->open(std::move(socket).value()).ok());
  }
  ~Served() override {
    server_.reset();
    std::filesystem::remove_all(root_);
  }

  std::string status_report() override {
    ++reports_;
    return report_;
  }
  std::optional<std::string> job_status() override { return job_; }
  std::optional<std::string> drain_status(uint64_t client, std::string_view line) override {
    clients_.push_back(client);
    asked_.emplace_back(line);
    return drain_;
  }

  // Runs some passes of the driving thread.
  void pass() {
    for (int i = 0; i < 8; ++i) {
      reactor_.poll(0);
      server_->progress(clock_.now());
    }
  }
  // Returns true when the thread would sleep instead of spinning.
  bool at_rest() {
    pass();
    return reactor_.poll(0) == 0 && server_->next_timeout() > clock_.now();
  }

  std::string root_;
  std::string directory_;
  std::string path_;
  std::unique_ptr<TcpPoller> poller_ = TcpPoller::open().value();
  Reactor reactor_{*poller_};
  ManualClock clock_;
  int reports_ = 0;
  std::string report_ = "{\"a\":1}";
  std::optional<std::string> job_;
  std::optional<std::string> drain_;
  std::vector<std::string> asked_;
  std::vector<uint64_t> clients_;
  std::unique_ptr<StatusServer> server_;
};

}  // namespace r2ccl::status_test
