#include "protocol/health/reach_filter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

bool is_whole(const std::optional<NicReach>& nic) {
  return nic && nic->whole();
}

}  // namespace

ReachFilter::ReachFilter(HostReach first) : nics_(first.size()), reported_(std::move(first)) {
  for (size_t nic = 0; nic < nics_.size(); ++nic) nics_[nic].momentary = reported_[nic];
}

void ReachFilter::assume_lost(size_t nic) {
  R2CCL_CHECK(nic < nics_.size());
  reported_[nic] = NicReach{0, 1};
  nics_[nic] = {};
  nics_[nic].momentary = reported_[nic];
}

void ReachFilter::observe(const HostReach& momentary, TimeNs now) {
  R2CCL_CHECK(momentary.size() == nics_.size());
  for (size_t i = 0; i < nics_.size(); ++i) {
    NicWatch& nic = nics_[i];
    nic.momentary = momentary[i];
    if (is_whole(nic.momentary)) nic.has_been_whole = true;
    if (nic.momentary == reported_[i]) {
      nic.since = kNever;
    } else if (nic.since == kNever) {
      nic.since = now;
    }
  }
}

TimeNs ReachFilter::due(size_t nic) const {
  const NicWatch& watch = nics_[nic];
  if (watch.since == kNever) return kNever;
  return watch.since + (watch.has_been_whole ? kReportAfter : kFirstLossAfter);
}

const HostReach& ReachFilter::reported(TimeNs now) {
  for (size_t i = 0; i < nics_.size(); ++i) {
    if (due(i) > now) continue;
    reported_[i] = nics_[i].momentary;
    nics_[i].since = kNever;
  }
  return reported_;
}

TimeNs ReachFilter::next_timeout() const {
  TimeNs next = kNever;
  for (size_t nic = 0; nic < nics_.size(); ++nic) next = std::min(next, due(nic));
  return next;
}

}  // namespace r2ccl
