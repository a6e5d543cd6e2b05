// The surroundings of links under test, which need nothing from them and report to nobody. A test
// overrides what it looks at, and provides clock, wake-ups and the count of busy links.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "runtime/link/control_stream.h"
#include "runtime/link/link_host.h"
#include "transport/transport.h"

namespace r2ccl {

// Reports every source as ready. Reads and writes find out.
class EagerPoller final : public Poller {
 public:
  Status add(int poll_id, uint64_t token, bool) override {
    tokens_[poll_id] = token;
    return {};
  }
  void modify(int, uint64_t, bool) override {}
  void remove(int poll_id) override { tokens_.erase(poll_id); }
  size_t wait(std::span<PollEvent> events, TimeNs) override {
    size_t count = 0;
    for (const auto& [poll_id, token] : tokens_) events[count++] = {token, true, true};
    return count;
  }
  void wake() override {}

 private:
  std::map<int, uint64_t> tokens_;
};

// A machine without a free descriptor: only the test makes connections.
class NoTransport final : public Transport {
 public:
  Poller& poller() override { return poller_; }
  Result<std::vector<Nic>> nics() override { return std::vector<Nic>(); }
  int nic_events_poll_id() const override { return -1; }
  bool drain_nic_events() override { return false; }
  Result<std::unique_ptr<Listener>> listen(const Endpoint&, const std::string&) override {
    return system_error("listen", EADDRNOTAVAIL);
  }
  Result<std::unique_ptr<Connection>> connect(const Endpoint&, const ConnectOptions&) override {
    ++connects_;
    return system_error("connect", EMFILE);
  }
  int connects() const { return connects_; }

 private:
  int connects_ = 0;
  EagerPoller poller_;
};

class LinkSurroundings : public LinkHost {
 public:
  Reactor& reactor() override { return reactor_; }
  Transport& transport() override { return transport_; }
  const RunIdentity& run() const override { return run_; }
  std::array<std::byte, kNonceBytes> nonce() override { return {}; }
  std::span<std::byte> scratch() override { return scratch_; }
  std::span<std::byte> read_buffer() override { return read_buffer_; }
  std::vector<std::byte>& spare_frame() override { return spare_frame_; }
  NicQueue& queue(NicId nic) override { return queues_[nic]; }
  DialGate& dial_gate(NicId, bool) override { return gate_; }
  bool is_own(const Address&) const override { return false; }
  std::vector<std::byte> address_notice(NicId) const override { return {}; }
  std::optional<RelayRoute> relay_route(Rank, size_t) const override { return std::nullopt; }
  void doubt_nics(TimeNs) override {}
  void on_silent(Rank) override {}
  void on_unreached(Rank, bool, const std::string&) override {}
  void on_reached(Rank) override {}
  bool is_closed(ContextId, Rank) const override { return false; }
  void on_goodbye(Rank) override {}
  void on_path_event(const PathEvent&) override {}
  void on_notice(Rank, std::span<const std::byte>) override {}
  void on_peer_end(Rank, PeerEnd, const std::string&) override {}
  void on_bad_memory(const BadMemory&) override {}
  void on_contradiction(Rank, const std::string&) override {}

 protected:
  NoTransport transport_;
  Reactor reactor_{transport_.poller()};
  RunIdentity run_;
  std::map<NicId, NicQueue> queues_;

 private:
  std::vector<std::byte> scratch_ = std::vector<std::byte>(64 * 1024);
  std::vector<std::byte> spare_frame_;
  std::vector<std::byte> read_buffer_ = std::vector<std::byte>(ControlStream::kReadBytes);
  DialGate gate_{limits::kFirstDialsMax};
};

}  // namespace r2ccl
