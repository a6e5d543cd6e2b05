// The plugin in a process: its devices, listeners, attempts to connect and links to other
// processes. One engine and one progress thread serve all communicators of the process.
//
// Any thread may call it. Only send, receive and test (wire_end.h) are called often.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "nccl/device.h"
#include "nccl/listen_handle.h"
#include "nccl/meeting_client.h"
#include "nccl/meeting_server.h"
#include "nccl/net_status.h"
#include "nccl/peer.h"
#include "nccl/wire_end.h"
#include "runtime/admin/drain_registry.h"
#include "runtime/communicator_options.h"
#include "runtime/config/config.h"
#include "runtime/process_driver.h"
#include "transport/transport.h"

namespace r2ccl::nccl {

// NCCL's sendComm or recvComm points here.
class Comm {
 public:
  Comm(WireEnd* end, Peer* peer) : peer_(peer) { end_.store(end, std::memory_order_release); }

  // Another thread of NCCL's made the connection. Here it is ordered after that, however NCCL does
  // it.
  WireEnd* end() const { return end_.load(std::memory_order_acquire); }
  Peer* peer() const { return peer_; }

 private:
  std::atomic<WireEnd*> end_ = nullptr;
  Peer* const peer_;
};

class Net final : private MeetingHost, private ProcessEngine::Member {
 public:
  // Reads the settings and finds the NICs. `version`: R2CCL_VERSION_CODE, which both processes of a
  // link have alike.
  static Result<std::unique_ptr<Net>> open(uint32_t version, Warn warn);
  ~Net() override;
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  const std::vector<Device>& devices() const { return devices_; }

  // Returns the number of a new listener, and writes its handle.
  Result<uint32_t> listen(std::span<std::byte, kHandleBytes> handle);
  void close_listener(uint32_t listener);
  // Returns null while there is no connection yet. Another try has the same buffer as handle.
  // Requires that the device is there.
  Result<Comm*> connect(size_t device, std::span<std::byte, kHandleBytes> handle);
  // Takes the connections of a listener in the order in which they were made.
  Result<Comm*> accept(uint32_t listener);
  void close(Comm* comm);
  // Returns the faults of its links so far, for tests.
  std::vector<Fault> faults();
  // Waits until the other processes know of the links that have ended, for a bounded time: the
  // process may end next. `last`: it does, so its status socket goes, too.
  void flush(bool last = false);

 private:
  // A process that connects to itself has both ends of a link.
  struct PeerKey {
    ProcessId process{};
    bool asked_by_self = false;
    friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
  };
  struct Connect {
    std::unique_ptr<MeetingClient> client;
    Attempt attempt{};
    size_t device = 0;
    Peer* peer = nullptr;  // that it holds
    Comm* made = nullptr;
    TimeNs asked_at = 0;  // when NCCL last asked for it
  };
  // NCCL closes a listener as soon as it has what it waits for, and the attempt may be repeated.
  struct Accepted {
    uint32_t listener = 0;
    uint64_t link = 0;
    uint32_t number = 0;
    uint64_t opened = 0;  // the order in which they were opened at the other end, too; 0: not yet
    bool taken = false;   // NCCL has it
    TimeNs asked_at = 0;  // when the other process last asked
  };

  Net(CommunicatorOptions options, LockedBytes secret, std::unique_ptr<Transport> transport,
      const std::vector<Nic>& nics, Warn warn);
  Status start(const std::vector<Nic>& nics);
  std::vector<Peer*> started_peers() const;
  Result<uint64_t> begin_connect(size_t device, ListenHandle handle);
  void progress(Connect& connect, TimeNs now);
  // Takes back an attempt that NCCL does not get the connection of.
  static void give_up(Connect& connect);
  void forget_old(TimeNs now);
  Peer* find_peer(const PeerKey& key);
  Peer* find_usable(const PeerKey& key);
  Result<Peer*> make_peer(const PeerKey& key, uint64_t link);
  Result<Peer*> peer_of(const Ask& ask, bool* later);
  // Lets the attempt hold the peer that is in use now.
  Status hold_peer(Connect& connect, const PeerKey& key);
  MeetingClient::Opening on_answer(Connect& connect, const PeerKey& key, const Answer& answer);
  bool has_parted(uint64_t link) const;
  Peer* find_link(uint64_t link);
  void drop(const Accepted& accepted);
  void part_from(const PeerKey& key);
  void drop_ended_peers();

  // MeetingHost
  Result<Verdict> on_ask(const Ask& ask, Answer* answer) override;
  Status on_opened(const Ask& ask) override;

  // ProcessEngine::Member
  Rank self() const override { return Rank(0); }
  void progress() override;
  TimeNs next_timeout() override;
  bool busy() const override { return false; }
  void on_nics_changed() override {}
  bool caller_waits_outside(uint64_t) const override { return false; }
  void on_caller_waits() override {}
  void on_exception(const std::exception& error) noexcept override;

  const Warn warn_;
  CommunicatorOptions options_;
  const std::vector<Device> devices_;
  std::vector<Endpoint> endpoints_;  // in the handles
  ProcessDriver driver_;
  JobIdentity identity_;  // names this process; a configured secret is not in it
  LockedBytes secret_;    // the configured one
  DrainRegistry drains_;

  // The driving thread's.
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<NetStatus> operator_;
  std::unique_ptr<MeetingServer> server_;
  std::map<PeerKey, std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Peer>> parted_;  // their links are about to end
  std::map<uint64_t, Connect> connects_;
  std::set<uint32_t> listeners_;
  std::map<Attempt, Accepted> accepted_;
  uint64_t next_connect_ = 1;
  uint32_t next_listener_ = 1;
  uint64_t next_opened_ = 1;
  bool drops_ = false;  // drop_ended_peers() is posted
};

}  // namespace r2ccl::nccl
