// A rank may speak of its own NICs alone.
#pragma once

#include <algorithm>
#include <utility>

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

// Returns whether a rank of that host has the NIC.
inline bool is_nic_of_host(const JobMap& job, const NicName& name) {
  for (int32_t rank = 0; std::cmp_less(rank, job.size()); ++rank) {
    if (job.host_of(Rank(rank)) == name.host && is_nic_of(job, Rank(rank), name)) return true;
  }
  return false;
}

}  // namespace r2ccl
