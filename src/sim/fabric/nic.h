// One simulated NIC: what it is, what is broken about it, and its two queues.
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
  uint64_t rate_bytes_per_s = 125'000'000 / 4;  // of payload, each way
  uint32_t mtu = 1500;
  uint64_t speed_mbps = 250;  // what the driver claims
  bool data = true;           // false: not chosen as a data NIC (management)
  bool loopback = false;
};

// Everything that can be wrong with a NIC; a default value is a healthy one.
struct NicFaults {
  bool admin_down = false;        // seen by the own host only; its connects fail
  bool pulled = false;            // carrier lost: seen by the own host, connects stay pending
  bool hole_tx = false;           // nothing that it sends arrives, and nobody is told
  bool hole_rx = false;           // nothing that is sent to it arrives
  uint64_t rate_bytes_per_s = 0;  // slower than built; 0: as built
  uint64_t burst_bytes = 0;       // a shaper is slow only after so many, when it was idle
  TimeNs delay_ns = 0;            // added to each packet, each way
  TimeNs jitter_ns = 0;           // added at random up to this
  uint32_t loss_ppm = 0;          // of full frames, each way, or only
  enum class Way : uint8_t { both, sent, received } lost = Way::both;
  uint64_t port_bytes = 0;       // what the switch port holds of frames to it; 0: everything
  uint32_t frame_bytes_max = 0;  // larger packets vanish (an MTU hole); 0: no such fault

  friend bool operator==(const NicFaults&, const NicFaults&) = default;
};

// A connection's side that waits for its turn to send.
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
  // How long `bytes` occupy one direction. A small packet costs a whole minimal frame.
  TimeNs duration_of(uint64_t bytes) const {
    constexpr uint64_t kFrameBytesMin = 84;
    const uint64_t wire_bytes = bytes < kFrameBytesMin ? kFrameBytesMin : bytes;
    return static_cast<TimeNs>(wire_bytes * static_cast<uint64_t>(kSecond) / rate());
  }
  // The same from `now` on, with what the shaper lets through at the rate as built. `full_at`: when
  // the direction's bucket is full again.
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
  // As the transport reports it.
  Nic describe() const;

  Machine& machine;
  const NicOptions options;
  const uint32_t index;   // in its host, from 1 (the loopback)
  const uint32_t number;  // in the fabric: identity for traces and the severed pairs
  std::vector<Address> addresses;
  NicFaults faults;

  std::deque<EgressTurn> egress;  // round robin, one segment a turn
  bool egress_busy = false;
  TimeNs ingress_free_at = 0;
  TimeNs egress_full_at = 0;  // the shaper's bucket
  TimeNs ingress_full_at = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

}  // namespace r2ccl::sim
