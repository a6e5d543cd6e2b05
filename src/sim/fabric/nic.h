// One simulated NIC: its properties, its faults, and its two queues.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace r2ccl::sim {

struct Machine;

struct NicOptions {
  std::string name;                             // "nic0"
  uint32_t rail = 0;                            // NICs of one rail reach each other, and no others
  uint64_t rate_bytes_per_s = 125'000'000 / 4;  // payload, each way
  uint32_t mtu = 1500;
  uint64_t speed_mbps = 250;  // as the driver reports it
  bool data = true;           // false: not chosen as a data NIC (management)
  bool loopback = false;
};

// All faults of a NIC. Default values mean a healthy one.
struct NicFaults {
  bool admin_down = false;        // only the own host sees it; its connects fail
  bool pulled = false;            // carrier lost: only the own host sees it, connects stay pending
  bool hole_tx = false;           // black hole: no packet that it sends arrives
  bool hole_rx = false;           // black hole: no packet sent to it arrives
  uint64_t rate_bytes_per_s = 0;  // slower than the hardware; 0: no such fault
  uint64_t burst_bytes = 0;       // token bucket of a shaper: full rate for so many bytes
  TimeNs delay_ns = 0;            // added to each packet, each way
  TimeNs jitter_ns = 0;           // random addition, up to this
  uint32_t loss_ppm = 0;          // lost full frames of a million, in the direction `lost`
  enum class Way : uint8_t { both, sent, received } lost = Way::both;
  uint64_t port_bytes = 0;       // bytes that the switch port queues to it; 0: no limit
  uint32_t frame_bytes_max = 0;  // larger packets vanish (an MTU hole); 0: no such fault

  friend bool operator==(const NicFaults&, const NicFaults&) = default;
};

// A connection's side that waits to send.
struct EgressTurn {
  uint64_t flow_id;
  int side;
};

struct SimNic {
  SimNic(Machine& owner, NicOptions nic_options, uint32_t nic_index, uint32_t nic_number)
      : machine(owner), options(std::move(nic_options)), index(nic_index), number(nic_number) {}
  SimNic(const SimNic&) = delete;
  SimNic& operator=(const SimNic&) = delete;

  bool up() const { return !faults.admin_down; }
  bool carrier() const { return up() && !faults.pulled; }
  bool sends() const { return carrier() && !faults.hole_tx; }
  bool receives() const { return carrier() && !faults.hole_rx; }
  uint64_t rate() const {
    return faults.rate_bytes_per_s != 0 ? faults.rate_bytes_per_s : options.rate_bytes_per_s;
  }
  // Returns the time for which `bytes` occupy one direction. A small packet costs a whole minimal
  // frame.
  TimeNs duration_of(uint64_t bytes) const {
    constexpr uint64_t kFrameBytesMin = 84;
    const uint64_t wire_bytes = bytes < kFrameBytesMin ? kFrameBytesMin : bytes;
    return static_cast<TimeNs>(wire_bytes * static_cast<uint64_t>(kSecond) / rate());
  }
  // Returns the same from `now` on, with the shaper's burst at the hardware's rate. `full_at`: the
  // time when the direction's bucket is full again.
  TimeNs serve(uint64_t bytes, TimeNs now, TimeNs& full_at) const {
    const TimeNs slow = duration_of(bytes);
    if (faults.burst_bytes == 0) return slow;
    full_at = (full_at > now ? full_at : now) + slow;
    const TimeNs excess = full_at - now - duration_of(faults.burst_bytes);
    const auto fast =
        static_cast<TimeNs>(bytes * static_cast<uint64_t>(kSecond) / options.rate_bytes_per_s);
    return excess > fast ? excess : fast;
  }
  bool has_address(const Address& address) const {
    for (const Address& own : addresses) {
      if (own.family == address.family && own.bytes == address.bytes) return true;
    }
    return false;
  }
  // Returns the NIC as the transport reports it.
  Nic describe() const;

  Machine& machine;
  const NicOptions options;
  const uint32_t index;   // index in its host, from 1 (the loopback)
  const uint32_t number;  // number in the fabric: identity for traces and the severed pairs
  std::vector<Address> addresses;
  NicFaults faults;

  std::deque<EgressTurn> egress;  // round robin, one segment each
  bool egress_busy = false;
  TimeNs ingress_free_at = 0;
  TimeNs egress_full_at = 0;  // the shaper's bucket
  TimeNs ingress_full_at = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

}  // namespace r2ccl::sim
