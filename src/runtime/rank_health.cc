#include "runtime/rank_health.h"

#include <algorithm>

namespace r2ccl {

std::vector<PathInfo> path_infos(RankRuntime& rank) {
  std::vector<PathInfo> infos;
  const Members& members = rank.members();
  for (int32_t peer = 0; peer < rank.options().rank_count; ++peer) {
    const Link* link = members.link(Rank(peer));
    if (link == nullptr) continue;
    const TimeNs shortest = shortest_one_way(*link);
    const RankInfo& theirs = members.info(Rank(peer));
    for (const auto& path : link->paths()) {
      PathInfo& info = infos.emplace_back(
          path_info(theirs, *link, *path, shortest, rank.started_at(), rank.clock()));
      info.peer = Rank(peer);
      info.peer_host = members.host_name(members.map().host_of(Rank(peer)));
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
  VerdictInfo info = verdict_info(fault_reporter.job(), fault_reporter.verdicts()[place]);
  info.place = place;
  info.rank = rank.members().rank_of(info.rank);
  if (info.scope == Scope::process) info.process = rank.members().rank_of(info.process);
  return info;
}

}  // namespace r2ccl
