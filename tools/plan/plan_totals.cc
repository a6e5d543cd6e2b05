#include "tools/plan/plan_totals.h"

#include <algorithm>
#include <map>
#include <utility>

namespace r2ccl::tools {
namespace {

struct StepAt {
  size_t rank = 0;
  uint32_t index = 0;
};

// Finds the longest chain by a walk in topological order: a step follows the steps that it names,
// and a receive follows its send.
class Chains {
 public:
  explicit Chains(const WholePlan& plan) {
    std::map<std::pair<size_t, size_t>, std::vector<StepAt>> sends;  // by from, to
    for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
      const std::vector<Step>& steps = plan.plans[rank].steps;
      nodes_.emplace_back(steps.size());
      for (uint32_t i = 0; i < steps.size(); ++i) {
        if (steps[i].kind == StepKind::send) sends[{rank, peer_of(steps[i])}].push_back({rank, i});
      }
    }
    std::map<std::pair<size_t, size_t>, size_t> met;
    for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
      const std::vector<Step>& steps = plan.plans[rank].steps;
      for (uint32_t i = 0; i < steps.size(); ++i) {
        for (const uint32_t before : steps[i].after) connect({rank, before}, {rank, i});
        if (steps[i].kind != StepKind::receive && steps[i].kind != StepKind::receive_reduce)
          continue;
        const std::pair from_to{peer_of(steps[i]), rank};
        connect(sends.at(from_to).at(met[from_to]++), {rank, i});
      }
    }
  }

  uint64_t longest() {
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      for (uint32_t i = 0; i < nodes_[rank].size(); ++i) {
        if (nodes_[rank][i].waits_for == 0) open_.push_back({rank, i});
      }
    }
    uint64_t longest = 0;
    while (!open_.empty()) {
      const StepAt at = open_.back();
      open_.pop_back();
      Node& node = nodes_[at.rank][at.index];
      longest = std::max(longest, node.hops);
      for (const StepAt next : node.next) {
        Node& follower = nodes_[next.rank][next.index];
        follower.hops = std::max(follower.hops, node.hops + (next.rank == at.rank ? 0 : 1));
        if (--follower.waits_for == 0) open_.push_back(next);
      }
    }
    return longest;
  }

 private:
  struct Node {
    uint64_t hops = 0;  // of the longest chain that ends here
    size_t waits_for = 0;
    std::vector<StepAt> next{};
  };

  static size_t peer_of(const Step& step) { return static_cast<size_t>(step.peer.value()); }

  void connect(StepAt first, StepAt second) {
    nodes_[first.rank][first.index].next.push_back(second);
    ++nodes_[second.rank][second.index].waits_for;
  }

  std::vector<std::vector<Node>> nodes_;  // by rank and step
  std::vector<StepAt> open_;
};

}  // namespace

PlanTotals totals_of(const WholePlan& plan) {
  PlanTotals totals;
  const uint64_t element_bytes = size_of(plan.keys[0].type);
  for (const RankPlan& each : plan.plans) {
    RankTotals rank;
    for (const Step& step : each.steps) {
      if (step.kind != StepKind::send) continue;
      ++rank.messages_sent;
      rank.bytes_sent += step.source.count * element_bytes;
    }
    totals.messages += rank.messages_sent;
    totals.ranks.push_back(rank);
  }
  totals.hops = Chains(plan).longest();
  return totals;
}

}  // namespace r2ccl::tools
