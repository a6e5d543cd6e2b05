// A process with the plugin as its operator sees it: the status socket, drains, and the faults of
// its links put together. docs/status.md describes the texts.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "nccl/fault_board.h"
#include "nccl/net_drains.h"
#include "nccl/peer.h"
#include "runtime/admin/status_server.h"
#include "runtime/config/launch.h"
#include "runtime/engine/process_engine.h"
#include "transport/transport.h"

namespace r2ccl::nccl {

struct NetIdentity {
  uint64_t id = 0;  // in the name of the socket
  RankInfo info;    // the process and its host
  std::optional<LaunchedRank> rank;
  bool authenticated = false;  // it has a secret
};

class NetStatus final : public StatusSource, public PeerWatcher, private HandlerOwner {
 public:
  // `nics`: the names of this process's. `peers`: returns the started ones.
  NetStatus(NetIdentity identity, ProcessEngine& engine, DrainRegistry& drains,
            std::vector<std::string> nics, std::function<std::vector<Peer*>()> peers);
  NetStatus(const NetStatus&) = delete;
  NetStatus& operator=(const NetStatus&) = delete;

  // Answers operators at a socket in the directory of this user. Only warns when that fails: NCCL
  // can do without it.
  void open(const std::string& runtime_dir);
  // Removes the socket, for good.
  void close() { server_.reset(); }
  void progress(TimeNs now);
  TimeNs next_timeout() const;
  void on_link_end(uint64_t link) { faults_.on_link_end(link); }
  const FaultBoard& faults() const { return faults_; }

  // PeerWatcher
  void on_verdict(Peer& peer, const Verdict& verdict) override;
  void on_path_up(Peer& peer, const PathEvent& event) override;

  // StatusSource
  std::string status_report() override;
  std::optional<std::string> job_status() override;
  std::optional<std::string> drain_status(uint64_t client, std::string_view line) override {
    return drains_.answer(client, line, peers_());
  }

 private:
  // HandlerOwner: as RankStatus
  Rank self() const override;
  void on_exception(const std::exception&) noexcept override { server_->drop_clients(); }

  void hear(Peer& peer, const Verdict& verdict);
  std::string host_of(Peer& peer) const;
  std::vector<Peer*> sorted_peers() const;
  NicReach reach(const std::string& nic) const;
  void ping(const std::string& nic, const Peer& but_for) const;
  void write_identity(JsonWriter& out, const std::vector<Peer*>& peers) const;
  std::vector<Nic> own_nics() const;
  void write_links(JsonWriter& out, const std::vector<Peer*>& peers) const;
  void write_faults(JsonWriter& out, size_t count_max) const;

  const NetIdentity identity_;
  ProcessEngine& engine_;
  const std::vector<std::string> nics_;
  const std::function<std::vector<Peer*>()> peers_;
  const TimeNs started_at_;
  FaultBoard faults_;
  NetDrains drains_;
  Reactor reactor_;
  std::optional<StatusServer> server_;  // none: closed, or never opened
};

}  // namespace r2ccl::nccl
