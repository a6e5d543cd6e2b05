// Decides how much each NIC of a job can carry, from the reports of the ranks on the NICs of their
// hosts. Pure.
//
// A rank reports its host's NICs: ReachFilter gives the moment, and RateWatch finds the slow ones.
// The rank that decides for the job waits until the reports of one fault are in. LostNics finds the
// NIC at fault, and the table has the rates that are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
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
  // before. It holds for a NIC until a rank reports that.
  explicit HealthMap(std::span<const std::vector<uint16_t>> rails, const RateTable& known = {});

  // Takes the report of a rank of this host, in place of its last one. Refuses a report of NICs
  // that the host or a slow NIC's peer does not have. Where several ranks report a NIC, the worst
  // report counts: only the traffic of one of them may meet the fault.
  Status on_report(Rank rank, uint32_t host, const NicReport& report, TimeNs now);
  // The rank has left or died: its report counts no more.
  void on_end(Rank rank, TimeNs now);
  // Returns the table, once after each change that a report or time made to it.
  std::optional<RateTable> take(TimeNs now);
  // Returns the last table that take() returned.
  const RateTable& table() const { return table_; }
  TimeNs next_timeout() const { return due_; }
  void check_invariants() const;

 private:
  struct SlowSender {
    uint32_t host = 0;
    uint32_t rate = kWholeNic;
  };
  struct Nic {
    bool there = false;
    bool in_table = false;          // a rank has reported it, or the rank before had it
    std::optional<NicRate> before;  // by the rank before, and no rank has reported it since
    std::optional<SlowNic> slow;
    std::vector<SlowSender> senders;  // that send to this NIC alone, and slowly
  };
  struct Seen {
    uint32_t host = 0;
    NicReport report;
  };
  bool has(uint32_t host, uint16_t rail) const;
  Status check(uint32_t host, const NicReport& report) const;
  void put_together();
  void find_senders();
  static uint32_t least_rate_to(const Nic& nic);
  NicRate rate(uint32_t host, uint16_t rail) const;
  RateTable rates() const;

  std::vector<std::vector<Nic>> nics_;  // by host and rail
  const std::vector<HostReach> first_;  // by host and rail: before any report
  std::vector<HostReach> reach_;        // with the reports
  std::map<Rank, Seen> reports_;
  LostNics lost_;
  RateTable table_;
  TimeNs due_ = kNever;
};

}  // namespace r2ccl
