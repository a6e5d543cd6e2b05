#include "sim/trial/end_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace r2ccl::sim {
namespace {

// Both sides of a partition make verdicts, so the order may differ.
std::multiset<std::string> verdicts_of(SimRank& node) {
  std::multiset<std::string> texts;
  for (const Verdict& verdict : node.fault_reporter().verdicts()) {
    texts.insert(std::to_string(verdict.wall) + " " + describe(verdict));
  }
  return texts;
}

std::vector<std::string> only_in(const std::multiset<std::string>& mine,
                                 const std::multiset<std::string>& others) {
  std::vector<std::string> only;
  std::ranges::set_difference(mine, others, std::back_inserter(only));
  return only;
}

bool is_in_order(SimRank& node) {
  return !node.left() && !node.failed() && node.runtime->views() != nullptr;
}

}  // namespace

std::string describe(const Verdict& verdict) {
  const auto name = [](const NicName& nic) {
    return "h" + std::to_string(nic.host) + (nic.nic.empty() ? "" : " " + nic.nic);
  };
  std::string text =
      std::string("verdict: ") + to_string(verdict.scope) + " " + name(verdict.faulty);
  if (verdict.scope == Scope::pair) text += " and " + name(verdict.other);
  return text + ", " + to_string(verdict.kind);
}

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
    bool whole = true;
    node.for_each([&](RankRuntime& each) {
      const ViewAgreement& agreement = each.views()->agreement();
      whole = whole && agreement.settled() && agreement.latest().view.empty();
    });
    if (!whole) return false;
  }
  return true;
}

std::string differing_plans(Cluster& cluster) {
  // By communicator and number of the latest collective: a rank, and its chain.
  std::map<std::pair<int, uint64_t>, std::pair<int, uint64_t>> chains;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    SimRank& node = cluster.node(rank);
    if (!is_in_order(node)) continue;
    for (int c = 0; c <= static_cast<int>(node.further.size()); ++c) {
      const CallRecord& latest = node.communicator(c).operations().executor().calls().latest();
      const std::pair mine{rank, latest.chain};
      const auto [found, fresh] = chains.try_emplace({c, latest.number}, mine);
      if (fresh || found->second.second == latest.chain) continue;
      return "ranks " + std::to_string(found->second.first) + " and " + std::to_string(rank) +
             " have bound different plans up to collective " + std::to_string(latest.number);
    }
  }
  return {};
}

std::vector<std::string> differing_verdicts(Cluster& cluster) {
  std::vector<std::string> all;
  const auto first = verdicts_of(cluster.node(0));
  for (int rank = 1; rank < cluster.size(); ++rank) {
    const auto own = verdicts_of(cluster.node(rank));
    const std::string name = "rank " + std::to_string(rank);
    for (const std::string& text : only_in(own, first)) {
      all.push_back(name + " has, and rank 0 has not: " + text);
    }
    for (const std::string& text : only_in(first, own)) all.push_back(name + " lacks: " + text);
  }
  return all;
}

}  // namespace r2ccl::sim
