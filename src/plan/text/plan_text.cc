#include "plan/text/plan_text.h"

#include <span>

#include "base/check.h"
#include "plan/text/plan_words.h"
#include "plan/text/view_text.h"

namespace r2ccl {
namespace {

template <typename T>
void add_list(std::string& text, const char* name, std::span<const T> numbers) {
  if (numbers.empty()) return;
  text += std::string(" ") + name + " ";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  }
}

void add_region(std::string& text, const char* name, const Region& region) {
  text += std::string(" ") + name + " " + word_of(kBufferWords, region.buffer) + ":" +
          std::to_string(region.offset) + "+" + std::to_string(region.count);
}

std::vector<uint32_t> host_of_each_rank(const PlanKey& key) {
  if (key.hosts.empty()) return {};
  std::vector<uint32_t> host_of(static_cast<size_t>(key.rank_count));
  const auto& hosts = key.hosts.hosts();
  for (uint32_t host = 0; host < hosts.size(); ++host) {
    for (const Rank rank : hosts[host]) host_of[static_cast<size_t>(rank.value())] = host;
  }
  return host_of;
}

void add_costs(std::string& text, const char* name, const DomainCosts& costs,
               const DomainCosts& usual) {
  if (costs != usual) text += std::string(" ") + name + " " + to_string(costs);
}

void add_header(std::string& text, const PlanKey& key) {
  text += std::string("r2ccl-plan 1 collective ") + word_of(kCollectiveWords, key.collective) +
          " algorithm " + word_of(kAlgorithmWords, key.algorithm) + " type " + to_string(key.type) +
          " op " + to_string(key.op) + " ranks " + std::to_string(key.rank_count) + " root " +
          std::to_string(key.root.value()) + " count " + std::to_string(key.count);
  if (key.reproducible) text += " reproducible";
  add_list<uint32_t>(text, "hosts", host_of_each_rank(key));
  if (!key.view.empty()) text += " view " + to_text(key.view);
  add_costs(text, "memory_costs", key.costs.memory, PlanCosts().memory);
  add_costs(text, "network_costs", key.costs.network, PlanCosts().network);
  text += "\n";
}

void add_rank(std::string& text, const PlanKey& key, const RankPlan& plan) {
  text += "rank " + std::to_string(plan.rank.value()) + " steps " +
          std::to_string(plan.steps.size()) + " scratch " + std::to_string(plan.scratch) +
          (plan.wide > 0 ? " wide " + std::to_string(plan.wide) : "") +
          (key.in_place ? " in_place" : "");
  add_list<uint64_t>(text, "counts", key.blocks.counts);
  add_list<uint64_t>(text, "starts", key.blocks.starts);
  add_list<uint64_t>(text, "received_counts", key.received.counts);
  add_list<uint64_t>(text, "received_starts", key.received.starts);
  text += "\n";
}

void add_step(std::string& text, size_t index, const Step& step) {
  text += std::to_string(index) + " " + word_of(kStepKindWords, step.kind);
  if (has_peer(step.kind)) text += " peer " + std::to_string(step.peer.value());
  if (step.kind != StepKind::receive) add_region(text, "source", step.source);
  if (step.kind != StepKind::send) add_region(text, "target", step.target);
  if (step.kind == StepKind::reduce) add_region(text, "addend", step.addend);
  if (step.kind == StepKind::receive_reduce || step.kind == StepKind::reduce) {
    text += std::string(" operands ") + word_of(kOperandsWords, step.operands);
    if (step.last_reduction) text += " last_reduction";
  }
  add_list<uint32_t>(text, "after", step.after);
  text += "\n";
}

}  // namespace

WholePlan make_whole_plan(const PlanKey& key, const PlanLimits& limits) {
  WholePlan whole;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    whole.keys.push_back(key);
    whole.plans.push_back(make_plan(key, Rank(rank), limits));
  }
  return whole;
}

std::string print_plan(const WholePlan& plan) {
  R2CCL_CHECK(!plan.keys.empty() && plan.keys.size() == plan.plans.size());
  R2CCL_CHECK(plan.keys.size() == static_cast<size_t>(plan.keys[0].rank_count));
  std::string text;
  add_header(text, plan.keys[0]);
  for (size_t rank = 0; rank < plan.keys.size(); ++rank) {
    add_rank(text, plan.keys[rank], plan.plans[rank]);
    const std::vector<Step>& steps = plan.plans[rank].steps;
    for (size_t index = 0; index < steps.size(); ++index) add_step(text, index, steps[index]);
  }
  return text;
}

}  // namespace r2ccl
