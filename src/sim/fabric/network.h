// The wires: decide which packet arrives and when, and in which order a NIC's connections send.
// Also holds the table of all connections.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sim/fabric/engine.h"
#include "sim/fabric/flow.h"
#include "sim/fabric/nic.h"
#include "sim/fabric/stream.h"

namespace r2ccl::sim {

// Observes which memory of the processes their kernels read and write, and when.
class IoWatch {
 public:
  virtual ~IoWatch() = default;
  // read() or a NIC has written to the first `bytes` of `slices`, or write() has read them.
  virtual void on_read(std::span<const iovec> slices, size_t bytes) = 0;
  virtual void on_write(std::span<const iovec> slices, size_t bytes) = 0;
};

struct NetworkOptions {
  TimeNs latency_ns = 50 * kMicrosecond;  // one way between two NICs of a rail
  TimeNs loopback_latency_ns = 10 * kMicrosecond;
  StreamLimits stream;
  // As with RDMA: a NIC writes arriving bytes into the memory that it was last given, whether or
  // not the process runs, until a fence.
  bool nics_write = false;
  IoWatch* watch = nullptr;
};

class Network {
 public:
  Network(Engine& engine, const NetworkOptions& options) : engine_(engine), options_(options) {}

  Engine& engine() { return engine_; }
  const NetworkOptions& options() const { return options_; }
  RingPool& rings() { return rings_; }

  void add_nic(SimNic& nic) { nics_.push_back(&nic); }
  const std::vector<SimNic*>& nics() const { return nics_; }
  // Returns null when no NIC has this address.
  SimNic* nic_with(const Address& address) const;

  Flow& open(const FlowSpec& spec);
  void on_open(std::function<void(uint64_t)> hook) { on_open_ = std::move(hook); }
  Flow* find(uint64_t flow_id);
  // Counts a frame that was tampered with, or one of them that its reader accepted.
  void note_tampered() { ++tampered_; }
  void note_unnoticed() { ++unnoticed_; }
  uint64_t tampered() const { return tampered_; }
  uint64_t unnoticed() const { return unnoticed_; }
  // Evidence of tampering that a process has read and not yet noticed, or passed on.
  struct Taken {
    uint64_t flow_id = 0;
    const SimHost* reader = nullptr;
    std::vector<std::byte> evidence;
    bool passed_on = false;
  };
  std::list<Taken>& taken() { return taken_; }
  void erase(uint64_t flow_id) { flows_.erase(flow_id); }
  const std::map<uint64_t, std::unique_ptr<Flow>>& flows() const { return flows_; }

  // Returns the time when a packet that leaves now would arrive, or nothing when it is lost on the
  // way out. Called once per packet, because it draws a random number.
  std::optional<TimeNs> depart(const SimNic* from, const SimNic* to, uint64_t bytes);
  // Returns whether the receiving NIC takes a packet now.
  bool arrives(const SimNic& from, const SimNic& to) const;

  // This side has bytes to send.
  void take_turn(SimNic& nic, EgressTurn turn);

  void sever(const SimNic& a, const SimNic& b) { severed_.insert(pair_of(a, b)); }
  void heal(const SimNic& a, const SimNic& b) { severed_.erase(pair_of(a, b)); }
  void heal_all() { severed_.clear(); }

 private:
  static std::pair<uint32_t, uint32_t> pair_of(const SimNic& a, const SimNic& b) {
    return a.number < b.number ? std::pair(a.number, b.number) : std::pair(b.number, a.number);
  }
  static bool connected(const SimNic& a, const SimNic& b);
  bool lost_by_chance(const SimNic& nic, bool sends, uint64_t bytes);
  void send_next(SimNic& nic);
  void carry(Flow& flow, int side, const Segment& segment, TimeNs sent_at);
  void enter(Flow& flow, int to, const Segment& segment, TimeNs last_byte_at);

  Engine& engine_;
  const NetworkOptions options_;
  std::vector<SimNic*> nics_;
  RingPool rings_;
  std::map<uint64_t, std::unique_ptr<Flow>> flows_;
  uint64_t next_flow_id_ = 1;
  uint64_t tampered_ = 0;
  uint64_t unnoticed_ = 0;
  std::list<Taken> taken_;
  std::function<void(uint64_t)> on_open_;
  std::set<std::pair<uint32_t, uint32_t>> severed_;
};

}  // namespace r2ccl::sim
