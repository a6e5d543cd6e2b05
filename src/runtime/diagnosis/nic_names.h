// A rank may speak of its own NICs alone.
#pragma once

#include <algorithm>

#include "protocol/diagnosis/fault_localiser.h"
#include "runtime/peers/job_map.h"

namespace r2ccl {

// An empty name stands for the whole host.
inline bool is_nic_of(const JobMap& job, Rank rank, const NicName& name) {
  if (name.host != job.host_of(rank)) return false;
  const auto& nics = job.info(rank).nics;
  return name.nic.empty() || name.nic == "lo" ||
         std::ranges::any_of(nics, [&](const NicInfo& nic) { return nic.name == name.nic; });
}

}  // namespace r2ccl
