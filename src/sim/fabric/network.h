// The wires: which packet arrives and when, in which order a NIC's connections send, and the table
// of all connections.
#pragma once

#include <cstdint>
#include <functional>
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

// Sees which memory of the processes their kernels read and write, and when.
class IoWatch {
 public:
  virtual ~IoWatch() = default;
  // Of `slices` the first `bytes` were written to by read() or by a NIC, or read by write().
  virtual void on_read(std::span<const iovec> slices, size_t bytes) = 0;
  virtual void on_write(std::span<const iovec> slices, size_t bytes) = 0;
};

struct NetworkOptions {
  TimeNs latency_ns = 50 * kMicrosecond;  // one way between two NICs of a rail
  TimeNs loopback_latency_ns = 10 * kMicrosecond;
  StreamLimits stream;
  // NICs write what arrives where it was last asked for, whether or not the process runs, until
  // they are told not to: as with RDMA.
  bool nics_write = false;
  IoWatch* watch = nullptr;
};

class Network {
 public:
  Network(Engine& engine, const NetworkOptions& options) : engine_(engine), options_(options) {}

  Engine& engine() { return engine_; }
  const NetworkOptions& options() const { return options_; }

  void add_nic(SimNic& nic) { nics_.push_back(&nic); }
  const std::vector<SimNic*>& nics() const { return nics_; }
  // Null when nobody has this address.
  SimNic* nic_with(const Address& address) const;

  Flow& open(const FlowSpec& spec);
  void on_open(std::function<void(uint64_t)> hook) { on_open_ = std::move(hook); }
  Flow* find(uint64_t flow_id);
  // Frames that were tampered with; and those of them that their reader took for sound.
  void note_tampered() { ++tampered_; }
  void note_unnoticed() { ++unnoticed_; }
  uint64_t tampered() const { return tampered_; }
  uint64_t unnoticed() const { return unnoticed_; }
  void erase(uint64_t flow_id) { flows_.erase(flow_id); }
  const std::map<uint64_t, std::unique_ptr<Flow>>& flows() const { return flows_; }

  // When a packet that leaves now would arrive; nothing when it is lost on the way out. Asked for
  // once per packet, because it rolls the dice.
  std::optional<TimeNs> depart(const SimNic* from, const SimNic* to, uint64_t bytes);
  // Whether a packet that left is let in now.
  bool arrives(const SimNic& from, const SimNic& to) const;

  // This side has something to send.
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
  std::map<uint64_t, std::unique_ptr<Flow>> flows_;
  uint64_t next_flow_id_ = 1;
  uint64_t tampered_ = 0;
  uint64_t unnoticed_ = 0;
  std::function<void(uint64_t)> on_open_;
  std::set<std::pair<uint32_t, uint32_t>> severed_;
};

}  // namespace r2ccl::sim
