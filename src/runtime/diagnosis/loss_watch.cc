#include "runtime/diagnosis/loss_watch.h"

#include <algorithm>
#include <map>
#include <utility>

namespace r2ccl {
namespace {

bool is_watched(const Path& path) {
  return !path.spec.control_only && path.spec.local_nic != kNoNic;
}

}  // namespace

// Ranks with several links to one host have several paths between the same two NICs.
LossReport LossWatch::report(TimeNs now) const {
  std::map<std::pair<NicName, NicName>, LossCount> counts;
  for (size_t peer = 0; peer < engine_.rank_count(); ++peer) {
    const Rank rank(static_cast<int32_t>(peer));
    const Link* link = engine_.link(rank);
    if (link == nullptr || link->peer_ended()) continue;
    for (const auto& path : link->paths()) {
      if (!is_watched(*path)) continue;
      const LossCount count = path->losses().count(now);
      if (count.sent == 0) continue;
      const NicName near = name_of_(engine_.self(), path->spec.local_nic);
      LossCount& sum = counts[{near, name_of_(rank, path->spec.remote_nic)}];
      const uint32_t periods = std::max(sum.periods, count.periods);
      const uint32_t lossy = std::max(sum.lossy, count.lossy);
      sum += count;
      sum.periods = periods;
      sum.lossy = lossy;
    }
  }
  LossReport report;
  report.observer = engine_.self();
  report.wall = clock_.wall();
  for (const auto& [ends, count] : counts) {
    if (ends.first.host == ends.second.host) continue;
    report.samples.push_back({ends.first, ends.second, count});
  }
  return report;
}

std::optional<LossReport> LossWatch::progress(TimeNs now) {
  if (now < next_) return {};
  next_ = now + LossMeter::kPeriod / 2;
  bool losing = false;
  for (size_t peer = 0; peer < engine_.rank_count(); ++peer) {
    const Link* link = engine_.link(Rank(static_cast<int32_t>(peer)));
    if (link == nullptr) continue;
    for (const auto& path : link->paths()) {
      if (!is_watched(*path)) continue;
      path->sample_losses(now);
      // Most paths have never lost a packet: their window need not be counted.
      losing = losing || (path->losses().lost() > 0 && path->losses().count(now).lost > 0);
    }
  }
  const bool began = losing && !losing_;
  losing_ = losing;
  if (!losing || (!began && now - reported_at_ < LossLocaliser::kReportInterval)) return {};
  reported_at_ = now;
  return report(now);
}

}  // namespace r2ccl
