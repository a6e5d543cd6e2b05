// Tells people which hosts are out of reach, and when they are reached again: one line for each
// host, however many ranks it has. Without it they would see a job that stands still.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "runtime/peers/job_map.h"

namespace r2ccl {

class UnreachedHosts {
 public:
  // `job` must outlive this. `cutoff`: how long calls wait for such a host.
  UnreachedHosts(const JobMap& job, TimeNs cutoff) : job_(job), cutoff_(cutoff) {}

  // The rank is out of reach; `own`: because of a NIC of this host.
  void on_unreached(Rank peer, bool own, const std::string& why, TimeNs now);
  void on_reached(Rank peer, TimeNs now);

 private:
  struct Host {
    std::set<Rank> ranks;  // that this rank does not reach because of the host
    std::string name;
    TimeNs since = 0;
  };

  const JobMap& job_;
  const TimeNs cutoff_;
  std::map<uint32_t, Host> hosts_;  // this host, because of its own NICs, and others
};

}  // namespace r2ccl
