// Decides which view to propose, from the rates that the hosts report. Pure.
//
// A host reports its own NICs: HostRatesFilter turns the momentary state of each into a rate that
// seldom changes, and RateWatch finds those that are slow. The rank that proposes collects the
// reports: ViewDriver waits until the reports of one fault are in, and makes a view of them.
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

// The report of a host. Rates are zero where a NIC is lost.
struct HostReport {
  HostRates rates;
  std::vector<SlowNic> slow;  // at most one entry for each NIC
  friend bool operator==(const HostReport&, const HostReport&) = default;
};
std::vector<std::byte> encode(const HostReport& report);
Result<HostReport> decode_host_report(std::span<const std::byte> bytes);

// The rates of this host's NICs with hysteresis. A NIC that is lost counts soon, and one that is
// back counts when it has stayed for a while. Each loss within the last minute doubles that time,
// so that a NIC that flaps seldom changes a plan (as the penalties of RFC 2439, but by a count).
class HostRatesFilter {
 public:
  // All paths of a NIC do not fail at the same moment.
  static constexpr TimeNs kLossAfter = 20 * kMillisecond;
  static constexpr TimeNs kReturnAfter = 200 * kMillisecond;
  static constexpr TimeNs kReturnAfterMax = 30 * kSecond;
  static constexpr TimeNs kFlapMemory = 60 * kSecond;
  // At first the NICs connect.
  static constexpr TimeNs kFirstLossAfter = 2 * kSecond;

  // `first`: the rates that the others take this host to have.
  HostRatesFilter(HostRates first, TimeNs now);

  // The momentary rates; one for each NIC.
  void observe(const HostRates& momentary, TimeNs now);
  // Returns the reported rates, which change only in here.
  const HostRates& rates(TimeNs now);
  TimeNs next_timeout() const;

 private:
  struct NicWatch {
    NicRate momentary;
    TimeNs since = 0;  // when the momentary rate became what it is
    bool has_been_whole = false;
    int losses = 0;  // each within kFlapMemory of the one before
    TimeNs lost_at = 0;
  };
  bool is_worse(size_t nic) const;
  TimeNs due(size_t nic) const;

  std::vector<NicWatch> nics_;
  HostRates reported_;
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
  uint32_t received(uint32_t host, const SlowNic& slow) const;
  std::vector<HostRates> rates() const;

  std::vector<HostReport> reports_;  // by host
  TimeNs due_ = kNever;
};

}  // namespace r2ccl
