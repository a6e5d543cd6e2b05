// The simulated network of one test: machines with NICs, the processes on them, and all faults.
// Callers of the real transports run on it unchanged, because a SimHost is a Transport.
//
//   VirtualClock clock;
//   Fabric fabric(seed, clock);
//   SimHost& a = fabric.add_host("a");
//   SimNic& nic = fabric.add_nic(a, {.name = "nic0", .rail = 0});   // 10.0.0.<host + 1>/16
//   fabric.hole(nic);
//
// Single-threaded. All objects that the fabric made live as long as the fabric. Connections and
// listeners must be destroyed before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/fabric/engine.h"
#include "sim/fabric/host.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {

// A connection as the network sees it, for tests that break or count one.
struct FlowInfo {
  uint64_t id = 0;
  const SimNic* from = nullptr;  // the side that connected
  const SimNic* to = nullptr;    // null: no NIC has that address
  bool established = false;      // at both ends
  uint64_t delivered_from = 0;   // number of the connecting side's bytes that have arrived
  uint64_t delivered_to = 0;     // number of the listening side's bytes that have arrived
};

class Fabric {
 public:
  Fabric(uint64_t seed, VirtualClock& clock, const NetworkOptions& options = {});
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Adds a machine with one process on it. lo (127.0.0.1) exists from the start.
  SimHost& add_host(const std::string& name);
  // Adds a process, or a thread with a poller of its own, on the same machine.
  SimHost& add_process(SimHost& neighbour, const std::string& name);
  SimNic& add_nic(SimHost& host, const NicOptions& options);

  // --- time ---
  VirtualClock& clock() { return clock_; }
  // Runs `action` at a virtual time, for scheduled faults.
  void at(TimeNs time, std::function<void()> action);
  TimeNs next_event() const { return engine_.next_event(); }
  // Runs the next event if it lies at or before `deadline`. Otherwise advances to `deadline` and
  // returns false.
  bool step(TimeNs deadline) { return engine_.step(deadline); }
  void run_for(TimeNs duration);
  // Without a World: lets Poller::wait pass virtual time until a source is ready.
  void let_waits_pass_time();

  // --- faults of a NIC; fix() ends them all ---
  void set_faults(SimNic& nic, const NicFaults& faults);
  void down(SimNic& nic);
  void pull(SimNic& nic);
  void hole(SimNic& nic);
  void hole_tx(SimNic& nic);
  void hole_rx(SimNic& nic);
  void slow(SimNic& nic, uint64_t rate_bytes_per_s, uint64_t burst_bytes = 0);
  void delay(SimNic& nic, TimeNs delay_ns, TimeNs jitter_ns = 0);
  void lose(SimNic& nic, uint32_t loss_ppm);
  void mtu_hole(SimNic& nic, uint32_t frame_bytes_max);
  void fix(SimNic& nic) { set_faults(nic, NicFaults{}); }
  void set_addresses(SimNic& nic, std::vector<Address> addresses);

  // --- faults between NICs and hosts ---
  void sever(const SimNic& a, const SimNic& b) { network_.sever(a, b); }
  void heal(const SimNic& a, const SimNic& b) { network_.heal(a, b); }
  // Separates the machines of `some` from all others.
  void partition(std::span<SimHost* const> some);
  void heal_partition() { network_.heal_all(); }

  // --- faults of connections ---
  std::vector<FlowInfo> flows() const;
  void reset_flow(uint64_t flow_id);
  // Ends delivery of the bytes sent by the connecting side (0) or the listening side (1) at byte
  // `offset` of its stream.
  void cut_flow(uint64_t flow_id, int side, uint64_t offset, CutKind kind);
  // Lets an attacker on the wire change the bytes that the connecting side (0) or the listening
  // side (1) sends.
  void tamper(uint64_t flow_id, int side, const Tamper& tamper);
  uint64_t tampered() const { return network_.tampered(); }
  // Returns the number of connections still in use a second after tampered bytes were read from
  // them.
  uint64_t unnoticed() const { return network_.unnoticed(); }
  // Sets a hook that receives each connection opened from now on, before it sends anything.
  void on_open(std::function<void(uint64_t flow_id)> hook) { network_.on_open(std::move(hook)); }

  // --- observation ---
  uint64_t trace_hash() const { return engine_.trace_hash(); }
  void trace(TraceKind kind, uint64_t a, uint64_t b) { engine_.trace(kind, a, b); }
  uint64_t events_run() const { return engine_.events_run(); }
  Random& random() { return engine_.random(); }

 private:
  SimHost& add_process_on(Machine& machine, const std::string& name);

  VirtualClock& clock_;
  Engine engine_;
  Network network_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
  bool waits_pass_time_ = false;
};

}  // namespace r2ccl::sim
