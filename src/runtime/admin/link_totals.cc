#include "runtime/admin/link_totals.h"

#include <algorithm>
#include <array>

namespace r2ccl {
namespace {

uint32_t bounded_count(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
}

// By phase: the count of the paths in it.
constexpr std::array kPathsIn{&RankSummary::Line::paths_down, &RankSummary::Line::paths_validating,
                              &RankSummary::Line::paths_up, &RankSummary::Line::paths_suspect};

void add_path(RankSummary::Line& line, const Path& path) {
  line.sent += path.total_bytes_sent();
  line.received += path.total_bytes_received();
  if (path.at_rest()) {
    ++line.paths_drained;
    return;
  }
  const PathPhase phase = path.state.phase();
  ++(line.*kPathsIn[static_cast<size_t>(phase)]);
  const TimeNs base = path.model.base_delay();
  const TimeNs delay = (base != 0 ? base : path.health.round_trip) / kMicrosecond;
  if (phase == PathPhase::up && delay > 0 && (line.delay_us == 0 || delay < line.delay_us)) {
    line.delay_us = static_cast<uint32_t>(std::min<TimeNs>(delay, UINT32_MAX));
  }
}

RankSummary::Trouble trouble_of(Rank peer, const Link& link, const Path& path, TimeNs started,
                                TimeNs now) {
  const Path::History& history = path.history;
  const bool connected = path.state.connected();
  const TimeNs down_at = history.downs > 0 ? history.down_at : started;
  RankSummary::Trouble trouble;
  trouble.peer = peer;
  trouble.nic = path.spec.is_shm() ? kShmNic : path.spec.local_nic;
  trouble.peer_nic = path.spec.is_shm() ? kShmNic : path.spec.remote_nic;
  trouble.phase = path.state.phase();
  trouble.cause = history.cause;
  trouble.peer_cause = history.peer_cause;
  trouble.dials = link.opens_paths();
  // A path that is being validated has not come back yet.
  const bool since_down = path.state.phase() != PathPhase::suspect;
  trouble.since_ms = bounded_ms(now - (since_down ? down_at : path.state.since()));
  trouble.next_attempt_ms = connected ? 0 : bounded_ms(path.backoff.next_attempt() - now);
  trouble.penalty_milli = static_cast<uint32_t>(std::min(1e9, path.backoff.penalty_at(now) * 1e3));
  trouble.returns = static_cast<uint32_t>(std::min<uint64_t>(history.returns, UINT32_MAX));
  return trouble;
}

}  // namespace

LinkTotals::LinkTotals(const LocalNics& nics) : losses_(nics.count()) {
  for (size_t i = 0; i < nics.count(); ++i) {
    RankSummary::Line& line = sums_.nics.emplace_back();
    line.nic = NicId(static_cast<uint16_t>(i));
    line.up = nics.all()[i].alive();
    line.drained = nics.drained().contains(line.nic);
  }
}

void LinkTotals::add(Rank peer, const Link& link, TimeNs started, TimeNs now) {
  sums_.hedged += link.hedged_bytes();
  sums_.retransmitted += link.retransmitted_bytes();
  for (const auto& path : link.paths()) {
    sums_.corruptions += bounded_count(path->history.corruptions);
    if (path->spec.control_only || path->spec.relay || path->stands_by()) continue;
    const NicId nic = path->spec.local_nic;
    RankSummary::Line& within_host = path->spec.is_shm() ? shm_ : loopback_;
    add_path(nic == kNoNic ? within_host : sums_.nics[nic.value()], *path);
    if (nic != kNoNic) losses_[nic.value()] += path->losses().count(now);
    // The operator who took it away does not miss it.
    if (path->state.usable() || path->drained || link.peer_ended()) continue;
    sums_.troubles.push_back(trouble_of(peer, link, *path, started, now));
  }
}

void LinkTotals::put_into(RankSummary& summary) const {
  summary.hedged = sums_.hedged;
  summary.retransmitted = sums_.retransmitted;
  summary.corruptions = sums_.corruptions;
  summary.troubles = sums_.troubles;
  summary.nics = sums_.nics;
  for (size_t i = 0; i < losses_.size(); ++i) summary.nics[i].loss_ppm = losses_[i].ppm();
  for (const RankSummary::Line& line : {shm_, loopback_}) {
    const bool has_paths =
        line.paths_up + line.paths_suspect + line.paths_validating + line.paths_down > 0;
    if (has_paths) summary.nics.push_back(line);
  }
}

}  // namespace r2ccl
