#include "runtime/rank_health.h"

#include <algorithm>
#include <optional>

namespace r2ccl {
namespace {

// Returns the shortest one-way delay of the link's data paths that are up. It contains the
// difference between the two clocks, so it can be negative.
TimeNs shortest_one_way(const Link& link) {
  TimeNs shortest = kNever;
  for (const auto& path : link.paths()) {
    if (path->carries()) shortest = std::min(shortest, path->model.recent_one_way());
  }
  return shortest;
}

TimeNs one_way_excess(const Path& path, TimeNs shortest) {
  const TimeNs own = path.model.recent_one_way();
  if (own == kNever || shortest == kNever || path.spec.control_only) return -1;
  return std::max<TimeNs>(own - shortest, 0);
}

PathInfo path_info(RankRuntime& rank, Rank peer, const Path& path, TimeNs shortest) {
  const TimeNs now = rank.clock().now();
  PathInfo info;
  info.peer = peer;
  info.peer_host = rank.members().host_name(rank.members().map().host_of(peer));
  info.nic = path.spec.local_name;
  info.peer_nic = peer_nic_of(rank, peer, path);
  info.remote = to_string(path.spec.remote);
  info.state = shown_state(path);
  info.drained = path.drained;
  info.incarnation = path.state.incarnation().value();
  info.state_age = now - std::max(path.state.since(), rank.started_at());
  if (path.model.rate_known()) {
    info.bytes_per_second =
        static_cast<uint64_t>(path.model.bytes_per_ns() * static_cast<double>(kSecond));
  }
  info.round_trip = path.health.round_trip;
  info.one_way_excess = one_way_excess(path, shortest);
  info.sent = path.total_bytes_sent();
  info.received = path.total_bytes_received();
  info.retransmitted = path.history.retransmitted_bytes;
  info.packets_sent = path.losses().sent();
  info.packets_lost = path.losses().lost();
  info.loss_ppm = path.losses().count(now).ppm();
  info.suspicions = path.history.suspicions;
  info.downs = path.history.downs;
  info.returns = path.history.returns;
  return info;
}

}  // namespace

ShownState shown_state(const Path& path) {
  if (path.at_rest()) return ShownState::drained;
  return path.stands_by() ? ShownState::standby : static_cast<ShownState>(path.state.phase());
}

const char* to_string(ShownState state) {
  switch (state) {
    case ShownState::drained:
      return "drained";
    case ShownState::standby:
      return "standby";
    case ShownState::down:
    case ShownState::validating:
    case ShownState::up:
    case ShownState::suspect:
      break;
  }
  return to_string(static_cast<PathPhase>(state));
}

std::string peer_nic_of(RankRuntime& rank, Rank peer, const Path& path) {
  const auto& nics = rank.members().info(peer).nics;
  const NicId nic = path.spec.remote_nic;
  return nic.value() < nics.size() ? nics[nic.value()].name : path.spec.local_name;
}

std::vector<PathInfo> path_infos(RankRuntime& rank) {
  std::vector<PathInfo> infos;
  for (int32_t peer = 0; peer < rank.options().rank_count; ++peer) {
    const Link* link = rank.members().link(Rank(peer));
    if (link == nullptr) continue;
    const TimeNs shortest = shortest_one_way(*link);
    for (const auto& path : link->paths()) {
      infos.push_back(path_info(rank, Rank(peer), *path, shortest));
    }
  }
  return infos;
}

bool concerns(RankRuntime& rank, const Verdict& verdict) {
  const Members& members = rank.members();
  if (verdict.scope == Scope::rail) return true;
  if (verdict.scope == Scope::process) return members.rank_of(verdict.process) != kNoRank;
  const auto on_host = [&](const RankInfo* info) {
    return rank.engine().job().host_of(info->rank) == verdict.faulty.host;
  };
  return std::ranges::any_of(members.infos(), on_host);
}

std::vector<size_t> verdicts_of(RankRuntime& rank) {
  std::vector<size_t> places;
  const auto& verdicts = rank.fault_reporter().verdicts();
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (concerns(rank, verdicts[i])) places.push_back(i);
  }
  return places;
}

VerdictInfo verdict_info(RankRuntime& rank, size_t place) {
  const FaultReporter& fault_reporter = rank.fault_reporter();
  const Verdict& verdict = fault_reporter.verdicts()[place];
  const auto host_of = [&](const NicName& nic) {
    return fault_reporter.job().host_name(size_t{nic.host});
  };
  VerdictInfo info;
  info.place = place;
  info.rank = rank.members().rank_of(verdict.rank);
  info.scope = verdict.scope;
  info.kind = verdict.kind;
  if (verdict.scope != Scope::rail) info.host = host_of(verdict.faulty);
  info.nic = verdict.faulty.nic;
  if (verdict.scope == Scope::pair) info.peer_host = host_of(verdict.other);
  info.peer_nic = verdict.other.nic;
  info.process = verdict.scope == Scope::process ? rank.members().rank_of(verdict.process) : Rank();
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
