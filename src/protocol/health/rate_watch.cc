#include "protocol/health/rate_watch.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// The part of a window in which a NIC must be busy to be found slow, and to be found faster.
constexpr double kBusy = 0.9;
constexpr double kBusyFaster = 0.5;
// A NIC at this part of its highest rate is as fast as ever.
constexpr double kFull = 0.9;
// The highest rate may have been a burst.
constexpr double kSink = 0.998;

// Returns the rate in quarters of the whole one. The least is a quarter: a NIC that delivers is not
// lost.
uint32_t quarters(double share) {
  if (share >= 0.8) return kWholeNic;
  const auto count = static_cast<uint32_t>(std::lround(share * 4));
  return std::clamp(count, 1U, 3U) * kWholeNic / 4;
}

double busy_part(const NicWindow& window, TimeNs length) {
  return static_cast<double>(window.busy) / static_cast<double>(length);
}

}  // namespace

// Returns the NIC's rate as a part of its highest one; 0: it was idle.
double RateWatch::measure(NicWatch& nic, const NicWindow& window, TimeNs length) {
  const double busy = busy_part(window, length);
  if (busy < kBusyFaster) return 0;
  const double rate = static_cast<double>(window.bytes) / static_cast<double>(window.busy);
  if (busy >= kBusy) nic.highest = std::max(nic.highest * kSink, rate);
  return nic.highest > 0 ? rate / nic.highest : 0;
}

bool RateWatch::on_window(const std::vector<NicWindow>& windows, TimeNs length) {
  R2CCL_CHECK(windows.size() == nics_.size() && length > 0);
  std::vector<double> shares(windows.size());
  bool any_full = mutated(Mutant::view_rate_any);
  for (size_t i = 0; i < windows.size(); ++i) {
    // A NIC that shows its first rate has nothing to compare it with.
    const bool known = nics_[i].highest > 0;
    shares[i] = measure(nics_[i], windows[i], length);
    const bool full = busy_part(windows[i], length) >= kBusy && shares[i] >= kFull;
    any_full = any_full || (known && full);
  }
  bool changed = false;
  for (size_t i = 0; i < windows.size(); ++i) {
    Finding finding;
    finding.rate = quarters(shares[i]);
    if (finding.rate < kWholeNic) {
      finding.host = windows[i].host;
      finding.nic = windows[i].nic;
    }
    const bool faster = shares[i] > 0 && finding.rate > nics_[i].found.rate;
    const bool busy = any_full && busy_part(windows[i], length) >= kBusy;
    changed = (faster || busy ? agree(nics_[i], finding) : doubt(nics_[i])) || changed;
  }
  return changed;
}

// Returns whether the finding counts from now on: the last windows agree.
bool RateWatch::agree(NicWatch& nic, const Finding& finding) {
  nic.agreeing = finding == nic.next ? nic.agreeing + 1 : 1;
  nic.next = finding;
  nic.without = 0;
  if (nic.agreeing < kWindows || nic.found == finding) return false;
  nic.found = finding;
  return true;
}

// A window has shown nothing about the NIC. Returns whether it counts as whole from now on.
bool RateWatch::doubt(NicWatch& nic) {
  if (nic.found.rate == kWholeNic || ++nic.without < kMemory) return false;
  nic.found = nic.next = {};
  nic.agreeing = 0;
  return true;
}

std::vector<SlowNic> RateWatch::slow() const {
  std::vector<SlowNic> all;
  for (size_t i = 0; i < nics_.size(); ++i) {
    const Finding& found = nics_[i].found;
    if (found.rate == kWholeNic) continue;
    all.push_back({static_cast<uint16_t>(i), found.rate, found.host, found.nic});
  }
  return all;
}

}  // namespace r2ccl
