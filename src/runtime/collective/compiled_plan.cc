#include "runtime/collective/compiled_plan.h"

#include <utility>

namespace r2ccl {

CompiledPlan::CompiledPlan(RankPlan plan, int32_t rank_count) : plan_(std::move(plan)) {
  index_dependents();
  sort_into_step_queues(rank_count);
}

void CompiledPlan::index_dependents() {
  const std::vector<Step>& steps = plan_.steps;
  waits_.reserve(steps.size());
  first_dependent_.assign(steps.size() + 1, 0);
  for (const Step& step : steps) {
    const uint32_t arrival = step.kind == StepKind::receive_reduce ? 1 : 0;
    waits_.push_back(static_cast<uint32_t>(step.after.size()) + arrival);
    for (const uint32_t before : step.after) ++first_dependent_[before + 1];
  }
  for (size_t i = 0; i < steps.size(); ++i) first_dependent_[i + 1] += first_dependent_[i];
  dependents_.resize(first_dependent_.back());
  std::vector<uint32_t> fill(first_dependent_.begin(), first_dependent_.end() - 1);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    for (const uint32_t before : steps[i].after) dependents_[fill[before]++] = i;
  }
}

void CompiledPlan::sort_into_step_queues(int32_t rank_count) {
  const std::vector<Step>& steps = plan_.steps;
  step_queue_by_peer_.assign(static_cast<size_t>(rank_count) * 2, kNone);
  step_queue_of_.assign(steps.size(), kNone);
  staged_index_.assign(steps.size(), kNone);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (!has_peer(step.kind)) continue;
    const StepQueueKind kind =
        step.kind == StepKind::send ? StepQueueKind::send : StepQueueKind::receive;
    uint32_t& step_queue = step_queue_by_peer_[slot(kind, step.peer)];
    if (step_queue == kNone) {
      step_queue = static_cast<uint32_t>(step_queues_.size());
      step_queues_.push_back({kind, step.peer, {}});
    }
    step_queues_[step_queue].steps.push_back(i);
    step_queue_of_[i] = step_queue;
    if (step.kind == StepKind::receive_reduce) {
      staged_index_[i] = static_cast<uint32_t>(staged_.size());
      staged_.push_back(i);
    }
  }
}

}  // namespace r2ccl
