// For the tests of the rendezvous: it runs over the loopback interface, in virtual time. The kernel
// moves the bytes, and time advances only when nothing moves any more.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/bootstrap/rendezvous_parts.h"
#include "runtime/bootstrap/rendezvous_server.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/secure_random.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {

inline constexpr TimeNs kTimeout = 120 * kSecond;

// A stranger that connects to the port.
class Stranger final : public EventHandler {
 public:
  Stranger(Transport& transport, Reactor& reactor, const Endpoint& to) {
    connection_ = transport.connect(to, {}).value();
    registration_ = reactor.add(connection_->poll_id(), *this, false).value();
  }
  void on_ready(const PollEvent&) override {
    std::array<std::byte, 4096> buffer;
    const iovec slice{buffer.data(), buffer.size()};
    const IoKind kind = connection_->read(std::span(&slice, 1)).kind;
    thrown_out_ = kind == IoKind::closed || kind == IoKind::failed;
    if (thrown_out_) registration_.reset();
  }
  void say(std::span<const std::byte> bytes) {
    const iovec slice{const_cast<std::byte*>(bytes.data()), bytes.size()};
    connection_->write(std::span(&slice, 1));
  }
  void say(const std::string& text) { say(std::as_bytes(std::span(text))); }
  bool was_thrown_out() const { return thrown_out_; }

 private:
  std::unique_ptr<Connection> connection_;
  Reactor::Registration registration_;
  bool thrown_out_ = false;
};

class RendezvousTest : public testing::Test {
 protected:
  using State = RendezvousClient::State;

  RendezvousTest()
      : transport_(TcpTransport::open({}).value()),
        reactor_(transport_->poller()),
        job_(make_job_identity()) {}

  void serve(uint16_t port = 0) {
    std::vector<std::unique_ptr<Listener>> listeners;
    listeners.push_back(transport_->listen(loopback(port), "").value());
    server_ = std::make_unique<RendezvousServer>(
        reactor_, std::move(listeners),
        RendezvousServer::Options{job_, random_nonce, kTimeout, idle_bound_});
    at_ = server_->endpoints().front();
  }

  RendezvousClient::Options options_of(int32_t rank, int32_t rank_count) const {
    RendezvousClient::Options options;
    options.job = job_;
    options.endpoints = {at_};
    options.info = info_of(rank);
    options.rank_count = rank_count;
    options.timeout_ns = kTimeout;
    options.nonce = random_nonce;
    return options;
  }
  RendezvousClient& join(RendezvousClient::Options options) {
    clients_.push_back(
        std::make_unique<RendezvousClient>(*transport_, reactor_, std::move(options), now_));
    return *clients_.back();
  }
  RendezvousClient& join(int32_t rank, int32_t rank_count) {
    return join(options_of(rank, rank_count));
  }
  Stranger& stranger() {
    strangers_.push_back(std::make_unique<Stranger>(*transport_, reactor_, at_));
    return *strangers_.back();
  }

  void progress() {
    if (server_ != nullptr) server_->progress(now_);
    for (const auto& client : clients_) client->progress(now_);
  }
  TimeNs next_timeout() const {
    TimeNs at = server_ != nullptr ? server_->next_timeout() : kNever;
    for (const auto& client : clients_) at = std::min(at, client->next_timeout());
    return at;
  }
  // Moves bytes until nothing moves; time stands still.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      progress();
      const bool due = next_timeout() <= now_;
      quiet = reactor_.poll(due ? 0 : kMillisecond) > 0 || due ? 0 : quiet + 1;
    }
  }
  // Lets virtual time pass until `condition` holds, but no longer than `limit`.
  bool run_until(const std::function<bool()>& condition, TimeNs limit = 10 * kTimeout) {
    const TimeNs end = now_ + limit;
    for (settle(); !condition(); settle()) {
      if (now_ >= end) return false;
      now_ = std::min(end, next_timeout());
    }
    return true;
  }
  bool all(State state) const {
    return std::ranges::all_of(clients_, [=](const auto& c) { return c->state() == state; });
  }

  std::unique_ptr<TcpTransport> transport_;
  Reactor reactor_;
  JobIdentity job_;
  TimeNs idle_bound_ = kNever;
  TimeNs now_ = kSecond;
  Endpoint at_;
  std::unique_ptr<RendezvousServer> server_;
  std::deque<std::unique_ptr<RendezvousClient>> clients_;
  std::deque<std::unique_ptr<Stranger>> strangers_;
};

}  // namespace r2ccl
