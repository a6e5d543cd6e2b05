#include "sim/trial/end_check.h"

#include <map>
#include <utility>

namespace r2ccl::sim {
namespace {

bool is_in_order(SimRank& node) {
  return !node.left() && !node.failed() && node.runtime->views() != nullptr;
}

}  // namespace

std::string paths_not_up(Cluster& cluster, const IsAlive& is_alive) {
  std::string all;
  for (int rank = 0; rank < cluster.size() && all.size() < 500; ++rank) {
    if (!is_alive(rank)) continue;
    for (int peer = 0; peer < cluster.size(); ++peer) {
      const Link* link = cluster.node(rank).engine().link(Rank(peer));
      if (link == nullptr || !is_alive(peer)) continue;
      for (const auto& path : link->paths()) {
        if (path->spec.relay || path->state.phase() == PathPhase::up) continue;
        all += "rank " + std::to_string(rank) + " to " + std::to_string(peer) + " by " +
               path->spec.local_name + " is " + to_string(path->state.phase()) + " (" +
               path->history.attempt + "); ";
      }
    }
  }
  return all;
}

bool views_whole(Cluster& cluster) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    SimRank& node = cluster.node(rank);
    if (!is_in_order(node)) continue;
    for (int context = 0; context < node.runtime->operations().contexts(); ++context) {
      const ViewAgreement& agreement = node.runtime->views()->agreement(context);
      if (!agreement.settled() || !agreement.latest().view.empty()) return false;
    }
  }
  return true;
}

std::string differing_plans(Cluster& cluster) {
  // By context and number of the latest collective: a rank, and its chain.
  std::map<std::pair<int, uint64_t>, std::pair<int, uint64_t>> chains;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    SimRank& node = cluster.node(rank);
    if (!is_in_order(node)) continue;
    for (int context = 0; context < node.runtime->operations().contexts(); ++context) {
      const CallRecord& latest = node.runtime->operations().executor(context).calls().latest();
      const std::pair mine{rank, latest.chain};
      const auto [found, fresh] = chains.try_emplace({context, latest.number}, mine);
      if (fresh || found->second.second == latest.chain) continue;
      return "ranks " + std::to_string(found->second.first) + " and " + std::to_string(rank) +
             " have bound different plans up to collective " + std::to_string(latest.number);
    }
  }
  return {};
}

}  // namespace r2ccl::sim
