// Which NICs of a job are lost, by the reports of all hosts. Pure.
//
// A path that is down says no more than that one of its two NICs failed. A failed one reaches the
// fewest hosts. So the NICs of a rail are judged in the order of their reach, and a NIC is lost
// when it misses more hosts than it reaches, without those whose NICs are lost.
//
// A loss counts at once, and a return when it has lasted for a while. Each loss within the last
// minute doubles that time, so that a NIC that flaps seldom changes a plan (as the penalties of RFC
// 2439, but by a count). The loss of a NIC that still reaches a host does not: where hosts go dark,
// which cannot report, the NICs of the others miss many.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "protocol/health/nic_report.h"

namespace r2ccl {

class LostNics {
 public:
  static constexpr TimeNs kReturnAfter = 200 * kMillisecond;
  static constexpr TimeNs kReturnAfterMax = 30 * kSecond;
  static constexpr TimeNs kFlapMemory = 60 * kSecond;
  // A NIC that still reaches a host may be whole, and the report of the NIC at fault on its way.
  static constexpr TimeNs kDoubtfulLossAfter = 200 * kMillisecond;

  // `hosts`: by host and rail, of the same number of rails each. Their lost NICs are lost from the
  // start.
  explicit LostNics(const std::vector<HostReach>& hosts);

  void judge(const std::vector<HostReach>& hosts, TimeNs now);
  bool lost(size_t host, size_t rail) const { return nics_[host * rails_ + rail].lost; }
  // Returns when to judge again, though no report comes in.
  TimeNs next_timeout() const;

 private:
  struct Nic {
    bool lost = false;
    TimeNs due = kNever;  // when the opposite counts, if it stays so
    int losses = 0;       // without doubtful ones; each within kFlapMemory of the one before
    TimeNs lost_at = 0;
  };
  void settle(Nic& nic, bool lost, bool doubtful, TimeNs now);
  static TimeNs return_after(const Nic& nic);

  size_t rails_ = 0;
  std::vector<Nic> nics_;  // by host and rail
};

}  // namespace r2ccl
