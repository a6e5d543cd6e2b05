// Decides how much each NIC of a job can carry, from the reports of the ranks on the NICs of their
// hosts. Pure.
//
// A rank reports its host's NICs: ReachFilter gives the moment, and RateWatch finds the slow ones.
// The rank that decides for the job waits until the reports of one fault are in. LostNics finds the
// NIC at fault, and the table has the rates that are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "plan/hosts/view.h"
#include "protocol/health/lost_nics.h"
#include "protocol/health/nic_report.h"
#include "protocol/health/rate_watch.h"

namespace r2ccl {

class HealthMap {
 public:
  // The time for the reports of one fault to come in.
  static constexpr TimeNs kSettle = 10 * kMillisecond;

  // `rails`: by host, those on which it has a NIC. `known`: the table of the rank that has decided
  // before; a NIC that is lost there stays lost until a report says otherwise.
  explicit HealthMap(std::span<const std::vector<uint16_t>> rails, const RateTable& known = {});

  // Takes a rank's report on NICs of its host, in place of all earlier ones on these NICs.
  // Refuses a report of NICs that the host or a slow NIC's peer does not have.
  Status on_report(uint32_t host, const NicReport& report, TimeNs now);
  // Returns the table, once after each change that a report or time made to it.
  std::optional<RateTable> take(TimeNs now);
  // Returns the last table that take() returned.
  const RateTable& table() const { return table_; }
  TimeNs next_timeout() const { return due_; }
  void check_invariants() const;

 private:
  struct Nic {
    bool there = false;
    bool told = false;  // a rank has reported it
    std::optional<SlowNic> slow;
  };
  bool has(uint32_t host, uint16_t rail) const;
  uint32_t received(uint32_t host, const SlowNic& slow) const;
  NicRate rate(uint32_t host, uint16_t rail) const;
  RateTable rates() const;

  std::vector<std::vector<Nic>> nics_;  // by host and rail
  std::vector<HostReach> reach_;        // by host and rail, of the same sizes
  LostNics lost_;
  RateTable table_;
  TimeNs due_ = kNever;
};

}  // namespace r2ccl
