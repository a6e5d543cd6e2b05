// The patterns of messages by which ranks measure the costs of plans (cost_meter.h), and the costs
// that follow from their times. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "plan/host_groups.h"
#include "plan/plan_costs.h"

namespace r2ccl {

// At most so many hosts, and ranks of a host, take part: more would need minutes on few cores.
inline constexpr size_t kMeasuredMax = 32;

// In a pattern of all, each rank of a host takes part, and between hosts as many ranks of each host
// as the smallest one has. The leader of a host is its first rank.
//
// The order matters. After a pattern of leaders comes one in which the others wait for their
// leader. Many bytes come last, because their queues in the NICs last longer than the pattern.
enum class CostPattern : uint8_t {
  shift,               // all: a message to the next rank of the host
  fan,                 // all: one to each of the next few
  net_shift,           // all: one to a rank of the next host
  net_fan,             // all: one to each of a few of other hosts
  leader_shift,        // leaders: one to that of the next host
  leader_fan,          // leaders: one to those of the next few hosts
  star,                // leaders: one to each other rank of the host, and back
  large_shift,         // as `shift`, of many bytes
  large_star,          // as `star`, of many bytes
  large_fan,           // as `fan`, of many bytes
  large_net_shift,     // as `net_shift`, of many bytes
  large_net_fan,       // as `net_fan`, of many bytes
  large_leader_shift,  // as `leader_shift`, of many bytes
};
inline constexpr size_t kCostPatterns = 13;

// One rank's part in one round of a pattern; it sends to nobody when it takes no part.
struct PatternPart {
  std::vector<Rank> to;
  std::vector<Rank> from;
  size_t bytes = 0;      // of each message
  bool answers = false;  // it sends once it has received; its time does not count
  int first_rounds = 0;  // that do not count, one at least
  int rounds = 0;        // of one batch
};
PatternPart part_in(CostPattern pattern, const HostGroups& hosts, size_t ranks, Rank self);

// Returns the ranks with which `self` exchanges messages in some pattern, in rank order.
std::vector<Rank> measured_peers(const HostGroups& hosts, size_t ranks, Rank self);

// By pattern, in ns; 0: nobody took part.
using PatternTimes = std::array<uint64_t, kCostPatterns>;
// Returns the costs in such a job. Costs of a kind that it does not have are the defaults.
// `cores`: of a host.
PlanCosts costs_from(const PatternTimes& times, const HostGroups& hosts, size_t ranks,
                     size_t cores);

// The most bytes that a rank sends in a round to one rank.
inline constexpr size_t kPatternBytesMax = 256 * 1024;

}  // namespace r2ccl
