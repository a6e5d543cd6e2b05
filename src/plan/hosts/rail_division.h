// Divides the traffic between hosts over the rails that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/hosts/view.h"

namespace r2ccl {

// A part of the vector, in any unit, that one host sends to another one.
struct RailFlow {
  uint32_t from = 0;
  uint32_t to = 0;
  uint64_t share = 0;
};

struct RailDivision {
  static constexpr uint64_t kParts = 1024;  // of a flow

  // By flow and rail, `flow * rails + rail`, where the hosts have so many rails together. Empty:
  // two hosts share no rail.
  std::vector<uint16_t> parts;
  // The time of the busiest NIC, in 1/1024 of the time in which the fastest host could send or
  // receive the vector. The largest number stands for hosts without a common rail.
  uint64_t load = UINT64_MAX;
  // The same where each flow takes its rails in proportion to the bandwidth of each.
  uint64_t load_of_proportions = UINT64_MAX;
};

// Makes the time of the busiest NIC short. The NICs of the hosts stand by rail, and the vector has
// `whole` units. All ranks find the same division.
RailDivision divide_over_rails(const std::vector<HostRates>& hosts,
                               const std::vector<RailFlow>& flows, uint64_t whole);

}  // namespace r2ccl
