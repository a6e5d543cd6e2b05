#include "runtime/admin/link_health.h"

#include <algorithm>

namespace r2ccl {
namespace {

TimeNs one_way_excess(const Path& path, TimeNs shortest) {
  const TimeNs own = path.model.recent_one_way();
  if (own == kNever || shortest == kNever || path.spec.control_only) return -1;
  return std::max<TimeNs>(own - shortest, 0);
}

void add_history(const Path::History& history, TimeNs now, TimeNs wall, PathInfo& info) {
  info.suspicions = history.suspicions;
  info.downs = history.downs;
  info.returns = history.returns;
  info.corruptions = history.corruptions;
  if (history.downs > 0) info.down_at = wall - (now - history.down_at);
  info.down_cause = to_string(history.cause);
  info.down_peer_cause = to_string(history.peer_cause);
  info.down_why = history.why;
  info.attempt = history.attempt;
}

}  // namespace

TimeNs shortest_one_way(const Link& link) {
  TimeNs shortest = kNever;
  for (const auto& path : link.paths()) {
    if (path->carries()) shortest = std::min(shortest, path->model.recent_one_way());
  }
  return shortest;
}

ShownState shown_state(const Path& path) {
  if (path.at_rest()) return ShownState::drained;
  return path.stands_by() ? ShownState::standby : static_cast<ShownState>(path.state.phase());
}

static_assert(static_cast<int>(ShownState::suspect) == static_cast<int>(PathPhase::suspect));

std::string peer_nic_of(const RankInfo& peer, const Path& path) {
  const NicId nic = path.spec.remote_nic;
  return nic.value() < peer.nics.size() ? peer.nics[nic.value()].name : path.spec.local_name;
}

PathInfo path_info(const RankInfo& peer, const Link& link, const Path& path, TimeNs shortest,
                   TimeNs started, const Clock& clock) {
  const TimeNs now = clock.now();
  PathInfo info;
  info.nic = path.spec.local_name;
  info.peer_nic = peer_nic_of(peer, path);
  info.remote = to_string(path.spec.remote);
  info.state = shown_state(path);
  info.drained = path.drained;
  info.incarnation = path.state.incarnation().value();
  info.state_age = now - std::max(path.state.since(), started);
  info.megabytes_per_second = path.model.bytes_per_ns() * 1e3;
  if (path.model.rate_known()) {
    info.bytes_per_second =
        static_cast<uint64_t>(path.model.bytes_per_ns() * static_cast<double>(kSecond));
  }
  info.base_delay = path.model.base_delay();
  info.window_bytes = path.model.window();
  info.round_trip = path.health.round_trip;
  info.one_way_excess = one_way_excess(path, shortest);
  info.sent = path.total_bytes_sent();
  info.received = path.total_bytes_received();
  info.retransmitted = path.history.retransmitted_bytes;
  info.packets_sent = path.losses().sent();
  info.packets_lost = path.losses().lost();
  info.loss_ppm = path.losses().count(now).ppm();
  add_history(path.history, now, clock.wall(), info);
  info.penalty = path.backoff.penalty_at(now);
  info.opens = link.opens_paths();
  if (!path.state.connected()) {
    info.next_attempt = std::max<TimeNs>(path.backoff.next_attempt() - now, 0);
  }
  return info;
}

VerdictInfo verdict_info(const JobMap& job, const Verdict& verdict) {
  const auto host_of = [&](const NicName& nic) { return job.host_name(size_t{nic.host}); };
  VerdictInfo info;
  info.rank = verdict.rank;
  info.scope = verdict.scope;
  info.kind = verdict.kind;
  if (verdict.scope != Scope::rail) info.host = host_of(verdict.faulty);
  info.nic = verdict.faulty.nic;
  if (verdict.scope == Scope::pair) info.peer_host = host_of(verdict.other);
  info.peer_nic = verdict.other.nic;
  info.process = verdict.scope == Scope::process ? verdict.process : kNoRank;
  // Without an unacknowledged frame there is nothing to count from.
  if (verdict.detected_us != 0) {
    info.detected = static_cast<TimeNs>(verdict.detected_us) * kMicrosecond;
  }
  info.loss_ppm = verdict.kind == DownCause::lossy ? verdict.loss_ppm : 0;
  info.retransmitted = verdict.retransmitted_bytes;
  info.stall = static_cast<TimeNs>(verdict.stall_us) * kMicrosecond;
  info.wall = verdict.wall;
  return info;
}

}  // namespace r2ccl
