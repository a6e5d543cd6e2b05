// Decides when a host reports a new reach of its NICs: one report for the paths of a NIC that fail,
// or return, together. Pure.
#pragma once

#include <vector>

#include "base/clock.h"
#include "protocol/health/nic_report.h"

namespace r2ccl {

class ReachFilter {
 public:
  // The paths of a NIC do not all fail, or return, at the same moment.
  static constexpr TimeNs kReportAfter = 20 * kMillisecond;
  // At first the NICs connect.
  static constexpr TimeNs kFirstLossAfter = 2 * kSecond;

  // `first`: the reach that the others take this host's NICs to have.
  explicit ReachFilter(HostReach first);

  // The others take this NIC for lost, until its reach says otherwise.
  void assume_lost(size_t nic);
  // The momentary reach of each NIC.
  void observe(const HostReach& momentary, TimeNs now);
  // Returns the reported reach, which changes only in here.
  const HostReach& reported(TimeNs now);
  TimeNs next_timeout() const;

 private:
  struct NicWatch {
    std::optional<NicReach> momentary;
    TimeNs since = kNever;  // when it began to differ from the reported one
    bool has_been_whole = false;
  };
  TimeNs due(size_t nic) const;

  std::vector<NicWatch> nics_;
  HostReach reported_;
};

}  // namespace r2ccl
