// Decides which view to propose, from the hosts' reports of their NICs. Pure.
//
// A host reports its own NICs: ReachFilter says when, and RateWatch finds those that are slow. The
// rank that proposes collects the reports: ViewDriver waits until the reports of one fault are in,
// LostNics finds the NIC at fault, and the view has what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "plan/hosts/view.h"
#include "protocol/view/host_report.h"
#include "protocol/view/lost_nics.h"
#include "protocol/view/rate_watch.h"

namespace r2ccl {

class ViewDriver {
 public:
  // The time for the reports of one fault to come in.
  static constexpr TimeNs kSettle = 10 * kMillisecond;
  // The slow NICs of the first view stay slow for this time, even if no report names them. A new
  // communicator has not seen such a NIC's highest rate, so it may never find out by itself.
  static constexpr TimeNs kFirstRates = RateWatch::kMemory * RateWatch::kWindow;

  // `first`: the rates of each host by the view that is in force at the start, all of the same
  // number of rails. `reports`: what each host has said, as far as the others know.
  ViewDriver(std::vector<HostRates> first, std::vector<HostReport> reports, TimeNs now);

  // Takes the report of a host. Refuses one of other NICs.
  Status on_report(size_t host, const HostReport& report, TimeNs now);
  // Returns the view to propose, once after each change. There is none while some host can send or
  // receive nothing: the plans cannot help it, and wait for it as before.
  std::optional<View> take(TimeNs now);
  TimeNs next_timeout() const { return due_; }

 private:
  uint32_t received(uint32_t host, const SlowNic& slow) const;
  void find_slow(uint32_t host, HostRates& rates) const;
  std::vector<HostRates> rates(TimeNs now) const;

  const std::vector<HostRates> first_;  // by host
  std::vector<HostReport> reports_;     // by host
  LostNics lost_;
  TimeNs first_until_ = 0;
  TimeNs due_ = kNever;
};

}  // namespace r2ccl
