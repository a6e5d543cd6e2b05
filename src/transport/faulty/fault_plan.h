// The faults of each NIC, set by a test or the demo while FaultyTransports run on other threads.
// Any thread may call any method.
//
// The plan names a NIC by its device name or by an address, as text. A fault on an address also
// holds for connections whose remote end it is, as far as the far end can see one: a black hole is
// one from both sides. So one plan in all processes gives the picture of one broken NIC.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/faulty/token_bucket.h"
#include "transport/transport.h"

namespace r2ccl {

// Changes bytes on their way out, once: bit `bit`, counted from the first byte, of the next bytes
// that are written in one piece and begin with `pattern`; or it adds `added` bytes behind them, and
// lets nothing more of that connection out.
struct ByteChange {
  uint64_t order = 0;  // a larger number is a new order; 0: none
  uint32_t bit = 0;
  uint32_t added = 0;  // 0: the bit is changed
  std::string pattern = {};
  friend bool operator==(const ByteChange&, const ByteChange&) = default;
};

struct NicFault {
  bool down = false;         // connections fail with ENETDOWN, nics() shows no carrier
  bool hole_tx = false;      // sent bytes are lost; to the writer the connection looks alive
  bool hole_rx = false;      // nothing arrives
  bool short_io = false;     // every read and write moves one byte
  bool no_buffers = false;   // the kernel refuses every read and write with ENOBUFS
  bool no_events = false;    // of every NIC: the kernel tells no change of a NIC
  uint64_t bytes_per_s = 0;  // each way, shared by the NIC's connections; 0: no limit
  TimeNs delay_ns = 0;       // added each way
  // Bytes that the NIC holds each way of every connection that is slow, delayed or in a black hole,
  // before its writer blocks; 0: HeldBytes::kCapacity. No fault by itself.
  uint32_t queue_bytes = 0;
  ByteChange change = {};

  // Returns whether the peers of this NIC hear nothing from it, not even that it is gone.
  bool silent() const { return down || hole_tx; }

  friend bool operator==(const NicFault&, const NicFault&) = default;
};

enum class Direction : uint8_t { transmit, receive };

constexpr size_t index_of(Direction direction) {
  return static_cast<size_t>(direction);
}

// The names by which the plan knows a FaultyTransport's connection or listener; parts may be empty.
struct FaultTarget {
  std::string device;
  std::string local;
  std::string remote;
};

class FaultPlan {
 public:
  // As a name, it means every NIC.
  static constexpr const char* kEveryNic = "*";

  // Replaces the faults of `nic`; a default NicFault heals it.
  void set(const std::string& nic, const NicFault& fault);
  // Resets the next connection of `nic` that has moved `bytes` in `direction`, at exactly this byte
  // (0: before the first). One connection, once.
  void reset_at(const std::string& nic, Direction direction, uint64_t bytes);
  // Fails the n-th operation from now on (n = 1: the next) with `error`, once. Operations are
  // listen, accept, connect, read, write and Poller::add. A connection whose operation failed is
  // dead, but for errors that refuse only the call.
  void fail_operation(uint64_t n, int error);
  // Returns whether the failure that was ordered last has happened.
  bool operation_has_failed() const;

  // Returns the version. For FaultyTransport: every set() changes it and wakes the pollers.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  NicFault fault_of(const FaultTarget& target) const;
  // Returns the bytes that the connection may still move before its reset.
  std::optional<uint64_t> reset_after(const FaultTarget& target, Direction direction) const;
  void reset_happened(const FaultTarget& target, Direction direction);
  // Records that the connection has carried out that order. Returns false when another one already
  // has.
  bool take_change(const FaultTarget& target, uint64_t order);
  // Counts one operation. Returns 0, or the error that it is to fail with.
  int next_operation();
  // Returns the tokens of a rate-limited NIC. A connection whose NIC has no limit never asks.
  size_t tokens(const FaultTarget& target, Direction direction, TimeNs now);
  void spend(const FaultTarget& target, Direction direction, size_t bytes);
  void add_poller(Poller* poller);
  void remove_poller(Poller* poller);

 private:
  struct Rule {
    NicFault fault;
    std::optional<uint64_t> reset_at[2];  // by Direction
    TokenBucket buckets[2];
    uint64_t changes_done = 0;  // the last order that was carried out
  };
  mutable std::mutex mutex_;  // guards the members below except version_
  std::map<std::string, Rule> rules_;
  std::vector<Poller*> pollers_;
  uint64_t operations_until_failure_ = 0;  // 0: none ordered
  int operation_error_ = 0;
  bool operation_failed_ = false;
  std::atomic<uint64_t> version_{1};  // released by set(), acquired by version()
};

}  // namespace r2ccl
