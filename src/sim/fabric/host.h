// One simulated process: a Transport with its own poller. Other processes may share its machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/fabric/machine.h"
#include "sim/fabric/poller.h"
#include "transport/transport.h"

namespace r2ccl::sim {

class Network;

class SimHost final : public Transport {
 public:
  SimHost(Network& network, Machine& machine, std::string name);
  ~SimHost() override;

  Poller& poller() override { return poller_; }
  Result<std::vector<Nic>> nics() override;
  int nic_events_poll_id() const override { return nic_events_poll_id_; }
  bool drain_nic_events() override;
  // From now on the kernel tells no change of a NIC.
  void lose_nic_events() { nic_events_.lost = true; }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override;
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override;

  const std::string& name() const { return name_; }
  Machine& machine() { return machine_; }
  SimPoller& sim_poller() { return poller_; }
  bool alive() const { return alive_; }
  // Returns the address of the NIC with this name. Requires that the NIC exists.
  Address address_of(const std::string& nic_name) const;

  // --- faults ---
  // Kills the process as kill -9 does: the kernel closes all its sockets. Its later calls fail with
  // EBADF.
  void kill();
  // Starts a new process in its place.
  void restart() { alive_ = true; }
  // Makes the n-th operation from now (1: the next) fail with `error`; see operations().
  void fail_operation(uint64_t n, int error) {
    fail_at_ = operations_ + n;
    fail_error_ = error;
  }
  // The process finds no data NIC but this one, as with a filter of names.
  void use_only(const std::string& nic) { only_nic_ = nic; }
  // Without descriptors the process can open no connection.
  void set_descriptors_left(bool left) { descriptors_left_ = left; }
  // Without shared memory nothing of the process reaches a listener there, as in a container.
  void set_shares_memory(bool shares) { shares_memory_ = shares; }
  // Returns the number of operations so far: nics, listen, connect, accept, read, write.
  uint64_t operations() const { return operations_; }

  // Counts an operation. Returns the errno value that it must fail with, or 0.
  int next_operation_error();
  void note_nic_change();

 private:
  std::string only_nic_;  // empty: it finds all
  class NicEvents final : public PollSource {
   public:
    bool readable() const override { return pending; }
    bool writable() const override { return false; }
    bool pending = false;
    bool lost = false;
  };
  struct Route {
    SimNic* nic;
    int error;  // the kernel's reason to refuse it; 0: none
  };
  Route route(const Address& remote, const ConnectOptions& options) const;

  Network& network_;
  Machine& machine_;
  const std::string name_;
  SimPoller poller_;
  NicEvents nic_events_;
  int nic_events_poll_id_;
  bool alive_ = true;
  uint64_t operations_ = 0;
  uint64_t fail_at_ = 0;
  int fail_error_ = 0;
  bool descriptors_left_ = true;
  bool shares_memory_ = true;
};

}  // namespace r2ccl::sim
