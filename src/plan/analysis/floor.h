// The floor of a collective: the least time that any plan can take, by counting bytes. It holds for
// any associative reduction and a network without other limits than the NICs. docs/schedules.md
// derives it.
#pragma once

#include "plan/plan.h"

namespace r2ccl {

enum class FabricKind : uint8_t {
  flat,  // any NIC reaches any other one
  rails  // a NIC reaches only those of its own rail
};

struct FloorOptions {
  double nic_bytes_per_second = 0;  // of a whole NIC, in each direction
  uint32_t nics = 1;                // of each host where the view is empty
  FabricKind fabric = FabricKind::flat;
};

// Returns the floor in seconds. It counts only the network: 0 where all ranks share a host.
double floor_seconds(const PlanKey& key, const FloorOptions& options);

}  // namespace r2ccl
