#include "protocol/view/rate_watch.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// The part of a window in which a NIC must be busy.
constexpr double kBusy = 0.9;
// A NIC at this part of its highest rate is as fast as ever.
constexpr double kFull = 0.9;
// The highest rate may have been a burst.
constexpr double kSink = 0.998;

// Returns the rate in quarters of the whole one. The least is a quarter: a NIC that delivers is not
// lost.
uint32_t quarters(double share) {
  if (share >= 0.8) return kWholeNic;
  const auto count = static_cast<uint32_t>(share * 4 + 0.5);
  return std::clamp(count, 1U, 3U) * kWholeNic / 4;
}

bool is_busy(const NicWindow& window, TimeNs length) {
  return static_cast<double>(window.busy) >= kBusy * static_cast<double>(length);
}

}  // namespace

bool RateWatch::on_window(const std::vector<NicWindow>& windows, TimeNs length) {
  R2CCL_CHECK(windows.size() == nics_.size() && length > 0);
  std::vector<double> shares(windows.size());
  bool any_full = mutated(Mutant::view_rate_any);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (!is_busy(windows[i], length)) continue;
    const double rate = static_cast<double>(windows[i].bytes) / static_cast<double>(length);
    // A NIC that shows its first rate has nothing to compare it with.
    const bool known = nics_[i].highest > 0;
    nics_[i].highest = std::max(nics_[i].highest * kSink, rate);
    if (nics_[i].highest > 0) shares[i] = rate / nics_[i].highest;
    any_full = any_full || (known && shares[i] >= kFull);
  }
  bool changed = false;
  for (size_t i = 0; any_full && i < windows.size(); ++i) {
    if (shares[i] == 0) continue;
    NicWatch& nic = nics_[i];
    Finding finding;
    finding.rate = quarters(shares[i]);
    if (finding.rate < kWholeNic) {
      finding.host = windows[i].host;
      finding.nic = windows[i].nic;
    }
    nic.agreeing = finding == nic.next ? nic.agreeing + 1 : 1;
    nic.next = finding;
    if (nic.agreeing < kWindows || nic.found == finding) continue;
    nic.found = finding;
    changed = true;
  }
  return changed;
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
