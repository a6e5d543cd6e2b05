// The network of the fluid simulator: hosts, NICs and rails, as resources with max-min fair flows.
//
//   flat    a host's bandwidth is the sum of its NICs'; nothing between the hosts is a limit
//   rails   NIC k of a host reaches NIC k of each other host, and no other NIC
//   spine   rails with switches above them: NIC k reaches other rails, too. All traffic that leaves
//           a rail shares the uplinks of its switch, and all that enters one the downlinks. They
//           carry the whole rail's bandwidth, divided by the oversubscription.
//
// A NIC is full duplex. Between two hosts a message is striped over all pairs of NICs that are
// alive: each pair is a flow of its own. On `spine` equal rails are paired first, then what is left
// in order. Within a host each rank has a port of its own, as NVLink gives it.
//
// The links of the library give a chunk to the NIC that is done first with the bytes of all links
// before it, so a link leaves a narrow rail to the links that have no other. On `rails` the flows
// that share a NIC therefore have weights: those by which the bytes of all links divide best. All
// weights are equal where the hosts are, and among more hosts and rails than kFluidDividedMax.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "plan/host_groups.h"
#include "plan/hosts/rail_division.h"
#include "plan/hosts/view.h"
#include "sim/fluid/max_min.h"

namespace r2ccl::sim {

inline constexpr uint32_t kFluidNicsMax = 64;
// Pairs of hosts that exchange bytes, times rails. The time of a division grows with them, and each
// change of a rate needs one.
inline constexpr size_t kFluidDividedMax = size_t{1} << 20;

enum class FluidFabricKind : uint8_t { flat, rails, spine };

// Rates are in bytes a second, for each direction.
struct FluidFabric {
  FluidFabricKind kind = FluidFabricKind::flat;
  uint32_t nics = 1;
  double nic_rate = 0;
  double latency_s = 0;        // one way
  double intra_rate = 450e9;   // of a rank's port within its host
  double intra_latency_s = 0;  // one way
  double oversubscription = 1;
  std::vector<HostRates> rates;  // of each host's NICs, as in a view; empty: all are whole
};

// Returns an error that names the value which no fabric can have.
Status check_fabric(const FluidFabric& fabric, size_t hosts);

class FluidNetwork {
 public:
  // Requires check_fabric().
  FluidNetwork(const FluidFabric& fabric, const HostGroups& hosts, int32_t ranks);

  size_t hosts() const { return nic_rates_.size(); }
  uint32_t host_of(uint32_t rank) const { return host_of_[rank]; }
  bool is_remote(uint32_t from, uint32_t to) const { return host_of_[from] != host_of_[to]; }

  // The resources of a flow.
  struct Pair {
    std::array<MaxMin::Resource, MaxMin::kResourcesOfFlowMax> resources{};
    uint32_t count = 0;
    uint32_t sender = 0;  // the rails of its NICs
    uint32_t receiver = 0;
    double weight = 1;
    std::span<const MaxMin::Resource> all() const { return {resources.data(), count}; }
  };
  // Returns the pairs of NICs, or ports, that carry a message between two ranks now. Valid until
  // the next call.
  std::span<const Pair> pairs(uint32_t from, uint32_t to);

  // Whether the weights of flows follow from the traffic.
  bool has_weights() const { return fabric_.kind == FluidFabricKind::rails; }
  // Tells the bytes that each host will send to each other one, in any unit. Requires
  // has_weights().
  void set_traffic(std::vector<RailFlow> traffic);
  // Changes the rate of a NIC. With has_weights(), no flow keeps its weight.
  void set_rate(uint32_t host, uint32_t nic, const NicRate& rate);
  const NicRate& rate(uint32_t host, uint32_t nic) const { return nic_rates_[host][nic]; }

  MaxMin& shares() { return shares_; }

 private:
  double bytes_per_s(uint32_t permille) const;
  void add_host(const HostRates* rates);
  void add_switches();
  void divide_traffic();
  void pair_rails(uint32_t from, uint32_t to);
  void pair_others(uint32_t from, uint32_t to);
  MaxMin::Resource sender(uint32_t host, uint32_t nic) const;
  MaxMin::Resource receiver(uint32_t host, uint32_t nic) const { return sender(host, nic) + 1; }

  const FluidFabric fabric_;
  MaxMin shares_;
  std::vector<uint32_t> host_of_;
  std::vector<HostRates> nic_rates_;
  // The NICs (on `flat`, the hosts) come first, each with two resources: sender and receiver.
  MaxMin::Resource first_switch_ = 0;  // each has two: up and down
  MaxMin::Resource first_port_ = 0;    // each has two
  std::vector<Pair> pairs_;
  std::vector<RailFlow> traffic_;
  std::unordered_map<uint64_t, size_t> traffic_of_;  // by `from * hosts + to`
  bool divided_ = true;                              // parts_ are those of the rates of now
  std::vector<uint16_t> parts_;                      // as RailDivision; empty: all are equal
};

}  // namespace r2ccl::sim
