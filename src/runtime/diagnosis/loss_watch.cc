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

LossWatch::LossWatch(ProgressEngine& engine, const Clock& clock, NameOf name_of)
    : engine_(engine), clock_(clock), name_of_(std::move(name_of)) {
  for (size_t i = 0; i < engine_.rank_count(); ++i) {
    const Rank peer(static_cast<int32_t>(i));
    const Link* link = engine_.link(peer);
    if (link == nullptr) continue;
    for (Path* path : link->paths()) {
      if (is_watched(*path)) watched_.push_back({peer, path});
    }
  }
}

// Ranks with several links to one host have several paths between the same two NICs.
LossReport LossWatch::report(TimeNs now) const {
  std::map<std::pair<NicName, NicName>, LossCount> counts;
  for (const auto& [peer, path] : watched_) {
    if (engine_.link(peer)->peer_ended()) continue;
    const LossCount count = path->losses().count(now);
    if (count.sent == 0) continue;
    const NicName near = name_of_(engine_.self(), path->spec.local_nic);
    LossCount& sum = counts[{near, name_of_(peer, path->spec.remote_nic)}];
    const uint32_t periods = std::max(sum.periods, count.periods);
    const uint32_t lossy = std::max(sum.lossy, count.lossy);
    sum += count;
    sum.periods = periods;
    sum.lossy = lossy;
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
  for (const auto& [peer, path] : watched_) {
    path->sample_losses(now);
    // Most paths have never lost a packet: their window need not be counted.
    losing = losing || (path->losses().lost() > 0 && path->losses().count(now).lost > 0);
  }
  const bool began = losing && !losing_;
  losing_ = losing;
  if (!losing || (!began && now - reported_at_ < LossLocaliser::kReportInterval)) return {};
  reported_at_ = now;
  return report(now);
}

}  // namespace r2ccl
