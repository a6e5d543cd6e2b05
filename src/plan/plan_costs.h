// The costs of messages and bytes in a job, by which the plan of a call is chosen
// (plan/cost_model.h). The ranks measure them at the start and agree on them. All ranks of a job
// must use the same ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace r2ccl {

// Costs between ranks of one host, or between hosts.
struct DomainCosts {
  // Every rank sends one small message and receives one: the time until all have it. It includes
  // the wake-ups, and the turns of the ranks that share a core.
  uint64_t hop_ns = 0;
  // Every rank sends and receives one message more at the same time.
  uint64_t message_ns = 0;
  // Every rank sends and receives 1024 bytes more at the same time: it counts the share of a rank
  // in the NICs, the memory and the cores of its host. In ps, because hosts of 3.2 Tbit/s carry
  // these bytes in 2.6 ns.
  uint64_t kib_ps = 0;
  // The same where these bytes go to several ranks, and come from several.
  uint64_t fan_kib_ps = 0;
  // A leader is one rank of a host that acts while the others of its host wait. A small message of
  // a leader, or to it.
  uint64_t leader_hop_ns = 0;
  // A leader sends or receives one message more.
  uint64_t leader_message_ns = 0;
  // A leader sends or receives 1024 bytes more.
  uint64_t leader_kib_ps = 0;
  friend bool operator==(const DomainCosts&, const DomainCosts&) = default;
};

// The text of the costs: their numbers in this order, all in ns, as
// "20000,4000,500,600,20000,4000,2.56".
std::string to_string(const DomainCosts& costs);
std::optional<DomainCosts> parse_domain_costs(std::string_view text);
// The same numbers in their own units.
using CostNumbers = std::array<uint64_t, 7>;
CostNumbers numbers_of(const DomainCosts& costs);
DomainCosts domain_costs(const CostNumbers& numbers);

// The defaults stand for hosts with one 1 Gbit/s NIC. They are for plans without a job, and for
// simulations.
struct PlanCosts {
  DomainCosts memory{.hop_ns = 20'000,
                     .message_ns = 4'000,
                     .kib_ps = 500'000,
                     .fan_kib_ps = 600'000,
                     .leader_hop_ns = 20'000,
                     .leader_message_ns = 4'000,
                     .leader_kib_ps = 250'000};
  DomainCosts network{.hop_ns = 60'000,
                      .message_ns = 20'000,
                      .kib_ps = 8'500'000,
                      .fan_kib_ps = 9'500'000,
                      .leader_hop_ns = 60'000,
                      .leader_message_ns = 10'000,
                      .leader_kib_ps = 8'500'000};
  friend bool operator==(const PlanCosts&, const PlanCosts&) = default;
};

// Bounds of a cost, so that no product overflows.
inline constexpr uint64_t kHopNsMax = uint64_t{1} << 36;
inline constexpr uint64_t kMessageNsMax = uint64_t{1} << 24;
inline constexpr uint64_t kKibPsMax = uint64_t{1} << 34;

// Returns the costs with each in its bounds and rounded to three binary digits. So a small
// difference between two runs of a job seldom changes a plan.
PlanCosts bounded(const PlanCosts& costs);

}  // namespace r2ccl
