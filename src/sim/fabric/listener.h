// Connections and listeners of a simulated process: the objects of the transport interface over
// flows.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "sim/fabric/flow.h"
#include "sim/fabric/poller.h"
#include "transport/transport.h"

namespace r2ccl::sim {

class Network;
class SimHost;

class SimConnection final : public Connection, public PollSource {
 public:
  SimConnection(SimHost& process, Flow& flow, int side);
  ~SimConnection() override;

  ConnectState connect_state() override;
  int connect_error() const override;
  IoResult read(std::span<const iovec> slices) override;
  IoResult write(std::span<const iovec> slices) override;
  IoResult receive(std::span<const iovec> slices) override;
  void fence() override { flow_.fence(side_); }
  IoResult send(std::span<const iovec> slices) override;
  void release() noexcept override { flow_.release(side_); }
  bool sends_in_place(size_t bytes) const override { return bytes > 0 && flow_.in_place(); }
  size_t skip(size_t most) override { return process_.alive() ? flow_.skip(side_, most) : 0; }
  ConnectionInfo info() const override { return flow_.info(side_); }
  Endpoint remote() const override { return flow_.endpoint(1 - side_); }
  Endpoint local() const override { return flow_.endpoint(side_); }
  int poll_id() const override { return poll_id_; }

  bool readable() const override { return flow_.readable(side_); }
  bool writable() const override { return flow_.writable(side_); }

  uint64_t flow_id() const { return flow_.id(); }

 private:
  IoResult operation_error();

  SimHost& process_;
  Flow& flow_;  // lives at least as long as a connection is attached to it
  const int side_;
  bool was_established_;
  int poll_id_;
};

class SimListener final : public Listener, public PollSource {
 public:
  SimListener(SimHost& process, Network& network, const Endpoint& local, std::string device);
  ~SimListener() override;

  std::unique_ptr<Connection> accept() override;
  int accept_error() const override { return accept_error_; }
  Endpoint local() const override { return local_; }
  int poll_id() const override { return poll_id_; }

  bool readable() const override { return !backlog_.empty(); }
  bool writable() const override { return false; }

  bool serves(const Endpoint& endpoint, const std::string& device) const;
  bool full() const { return backlog_.size() >= kBacklogMax; }
  void enqueue(uint64_t flow_id);
  const SimHost& process() const { return process_; }
  // Accepts no more connections: the listener or its process has ended.
  void shut();

 private:
  static constexpr size_t kBacklogMax = 4096;

  SimHost& process_;
  Network& network_;
  const Endpoint local_;
  const std::string device_;
  std::deque<uint64_t> backlog_;
  int accept_error_ = 0;
  int poll_id_;
};

}  // namespace r2ccl::sim
