// A rank's plan prepared for running. The dependencies are inverted, so that a completion finds its
// dependents, and the steps are sorted into step queues. Computed once per plan and never changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "plan/plan.h"

namespace r2ccl {

inline constexpr uint32_t kNone = UINT32_MAX;

enum class StepQueueKind : uint8_t { send, receive };

// The steps of one direction with one peer, in plan order. They are posted in that order, so the
// i-th message of the queue is its i-th step.
struct StepQueue {
  StepQueueKind kind = StepQueueKind::send;
  Rank peer;
  std::vector<uint32_t> steps;
};

class CompiledPlan {
 public:
  CompiledPlan(RankPlan plan, int32_t rank_count);

  const std::vector<Step>& steps() const { return plan_.steps; }
  const std::vector<StepQueue>& step_queues() const { return step_queues_; }
  // Return the elements of scratch memory, and of wide memory, that a run needs.
  uint64_t scratch() const { return plan_.scratch; }
  uint64_t wide() const { return plan_.wide; }

  // Per step: the number of events that it waits for. A receive_reduce counts the arrival of its
  // bytes as one event, because they can land in staging before the reduction may run.
  const std::vector<uint32_t>& waits() const { return waits_; }
  // The receive_reduce steps in plan order.
  const std::vector<uint32_t>& staged() const { return staged_; }

  std::span<const uint32_t> dependents(uint32_t step) const {
    return {dependents_.data() + first_dependent_[step],
            first_dependent_[step + 1] - first_dependent_[step]};
  }
  // Returns the step queue of a send or receive step; kNone for a step without
  // a peer.
  uint32_t step_queue_of(uint32_t step) const { return step_queue_of_[step]; }
  // Returns the position in staged(); kNone for other kinds.
  uint32_t staged_index(uint32_t step) const { return staged_index_[step]; }
  // Returns kNone when the plan has no such step queue.
  uint32_t find_step_queue(StepQueueKind kind, Rank peer) const {
    return step_queue_by_peer_[slot(kind, peer)];
  }

 private:
  static size_t slot(StepQueueKind kind, Rank peer) {
    return static_cast<size_t>(peer.value()) * 2 + (kind == StepQueueKind::send ? 0 : 1);
  }
  void index_dependents();
  void sort_into_step_queues(int32_t rank_count);

  RankPlan plan_;
  std::vector<StepQueue> step_queues_;
  std::vector<uint32_t> waits_;
  std::vector<uint32_t> staged_;
  std::vector<uint32_t> first_dependent_;  // steps + 1 entries
  std::vector<uint32_t> dependents_;
  std::vector<uint32_t> step_queue_of_;
  std::vector<uint32_t> staged_index_;
  std::vector<uint32_t> step_queue_by_peer_;
};

}  // namespace r2ccl
