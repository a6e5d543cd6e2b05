// Decides which view to propose, from what the hosts report of their NICs. Pure.
//
// A host reports its own NICs: ReachFilter turns the momentary reach of each into one that seldom
// changes, and RateWatch finds those that are slow. The rank that proposes collects the reports:
// ViewDriver waits until the reports of one fault are in, and makes a view of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "plan/hosts/view.h"
#include "protocol/view/rate_watch.h"

namespace r2ccl {

// How many of the other hosts a NIC reaches, in 1/1000. One that misses half of them or fewer
// counts as whole: these hosts' own NICs may be the cause.
using NicReach = uint16_t;
inline constexpr NicReach kWholeReach = 1000;
NicReach reach_of(size_t reached, size_t missed);

// The report of a host.
struct HostReport {
  std::vector<NicReach> reach;  // by rail; zero where the host lacks it
  std::vector<SlowNic> slow;    // at most one entry for each NIC
  friend bool operator==(const HostReport&, const HostReport&) = default;
};
std::vector<std::byte> encode(const HostReport& report);
Result<HostReport> decode_host_report(std::span<const std::byte> bytes);

// The reach of this host's NICs with hysteresis. A loss counts soon, and a return counts when it
// has lasted for a while. Each loss within the last minute doubles that time, so that a NIC that
// flaps seldom changes a plan (as the penalties of RFC 2439, but by a count).
class ReachFilter {
 public:
  // All paths of a NIC do not fail at the same moment.
  static constexpr TimeNs kLossAfter = 20 * kMillisecond;
  static constexpr TimeNs kReturnAfter = 200 * kMillisecond;
  static constexpr TimeNs kReturnAfterMax = 30 * kSecond;
  static constexpr TimeNs kFlapMemory = 60 * kSecond;
  // At first the NICs connect.
  static constexpr TimeNs kFirstLossAfter = 2 * kSecond;

  // `first`: the reach that the others take this host's NICs to have.
  ReachFilter(std::vector<NicReach> first, TimeNs now);

  // The momentary reach of each NIC.
  void observe(std::span<const NicReach> momentary, TimeNs now);
  // Returns the reported reach, which changes only in here.
  const std::vector<NicReach>& reach(TimeNs now);
  TimeNs next_timeout() const;

 private:
  struct NicWatch {
    NicReach momentary = kWholeReach;
    TimeNs since = 0;  // when it became what it is, or worse than the reported one
    bool has_been_whole = false;
    int losses = 0;  // each within kFlapMemory of the one before
    TimeNs lost_at = 0;
  };
  bool is_worse(size_t nic) const;
  TimeNs due(size_t nic) const;

  std::vector<NicWatch> nics_;
  std::vector<NicReach> reported_;
};

class ViewDriver {
 public:
  // The time for the reports of one fault to come in.
  static constexpr TimeNs kSettle = 10 * kMillisecond;

  // `hosts`: the rates of each host by the view that is in force at the start.
  explicit ViewDriver(std::vector<HostRates> hosts);

  // Takes the report of a host. Refuses one of other NICs.
  Status on_report(size_t host, const HostReport& report, TimeNs now);
  // Returns the view to propose, once after each change. There is none while some host can send or
  // receive nothing: the plans cannot help it, and wait for it as before.
  std::optional<View> take(TimeNs now);
  TimeNs next_timeout() const { return due_; }

 private:
  void find_lost(size_t rail, std::vector<HostRates>& rates) const;
  NicReach reach(size_t host, size_t rail) const;
  uint32_t received(uint32_t host, const SlowNic& slow) const;
  std::vector<HostRates> rates() const;

  std::vector<HostRates> first_;                    // by host: until its first report
  std::vector<std::optional<HostReport>> reports_;  // by host
  size_t rails_ = 0;                                // the most of a host
  TimeNs due_ = kNever;
};

}  // namespace r2ccl
