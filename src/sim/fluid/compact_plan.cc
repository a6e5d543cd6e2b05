#include "sim/fluid/compact_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace r2ccl::sim {
namespace {

// Small numbers of either sign as small numbers: 0, -1, 1, -2, ...
uint64_t folded(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t unfolded(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

uint64_t count_of(const Step& step) {
  return step.kind == StepKind::send ? step.source.count : step.target.count;
}

std::pair<bool, Rank> queue_of(const Step& step) {
  return {step.kind == StepKind::send, step.peer};
}

// The memory of a queue, its link and its flow in the simulation, beside the code.
constexpr uint64_t kQueueBytes = 256;

}  // namespace

void CompactPlan::put(uint64_t value) {
  for (; value >= 0x80; value >>= 7) code_.push_back(static_cast<uint8_t>(value | 0x80));
  code_.push_back(static_cast<uint8_t>(value));
}

void CompactPlan::add(const Step& step, uint32_t number, CompactStep& before) {
  const uint64_t count = count_of(step);
  const bool reduces = step.kind == StepKind::receive_reduce;
  put(number - before.number);
  put(folded(static_cast<int64_t>(count - before.count)) << 1 | (reduces ? 1 : 0));
  put(step.after.size());
  for (const uint32_t earlier : step.after) put(number - earlier);
  before.number = number;
  before.count = count;
}

void CompactPlan::read_step(uint32_t& at, CompactStep& step) const {
  const uint8_t* place = code_.data() + at;
  // The queues of thousands of ranks take turns, so the processor does not see by itself that this
  // one will go on with the next bytes.
  __builtin_prefetch(place + 64);
  step.number += static_cast<uint32_t>(take(place));
  const uint64_t word = take(place);
  step.reduces = (word & 1) != 0;
  step.count += static_cast<uint64_t>(unfolded(word >> 1));
  step.after_count = static_cast<uint32_t>(take(place));
  step.after = static_cast<uint32_t>(place - code_.data());
  for (uint32_t i = 0; i < step.after_count; ++i) {
    while (*place++ >= 0x80) {
    }
  }
  at = static_cast<uint32_t>(place - code_.data());
}

uint32_t CompactPlan::find(bool sends, Rank peer) const {
  const auto before = [](const Queue& queue, const std::pair<bool, Rank>& wanted) {
    return std::pair(queue.sends, queue.peer) < wanted;
  };
  const std::pair wanted(sends, peer);
  const auto it = std::lower_bound(queues_.begin(), queues_.end(), wanted, before);
  if (it == queues_.end() || std::pair(it->sends, it->peer) != wanted) {
    return static_cast<uint32_t>(queues_.size());
  }
  return static_cast<uint32_t>(it - queues_.begin());
}

uint64_t CompactPlan::memory() const {
  return code_.capacity() + steps_ / 8 + queues_.size() * kQueueBytes +
         copies_.size() * (sizeof(CompactStep) + 32);
}

Result<CompactPlan> CompactPlan::of(const RankPlan& plan) {
  constexpr size_t kStepsMax = 64 << 20;  // so that the code stays below 4 GB
  if (plan.steps.size() > kStepsMax) {
    return Status{Code::invalid_argument, "rank " + std::to_string(plan.rank.value()) + " has " +
                                              std::to_string(plan.steps.size()) +
                                              " steps; the simulator takes at most " +
                                              std::to_string(kStepsMax) + " a rank"};
  }
  CompactPlan compact;
  compact.steps_ = static_cast<uint32_t>(plan.steps.size());
  std::vector<std::pair<bool, Rank>> keys;
  for (const Step& step : plan.steps) {
    if (!has_peer(step.kind)) continue;
    if (keys.empty() || keys.back() != queue_of(step)) keys.push_back(queue_of(step));
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const auto& [sends, peer] : keys) compact.queues_.push_back({.sends = sends, .peer = peer});
  // The steps of each queue, in the order of the plan.
  std::vector<uint32_t> queue_numbers(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (!has_peer(step.kind)) continue;
    queue_numbers[i] = compact.find(step.kind == StepKind::send, step.peer);
    ++compact.queues_[queue_numbers[i]].length;
  }
  std::vector<uint32_t> next(compact.queues_.size() + 1);
  for (size_t i = 0; i < compact.queues_.size(); ++i) {
    next[i + 1] = next[i] + compact.queues_[i].length;
  }
  std::vector<uint32_t> order(next.back());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!has_peer(plan.steps[i].kind)) continue;
    order[next[queue_numbers[i]]++] = static_cast<uint32_t>(i);
  }
  compact.write(plan, order, queue_numbers);
  if (compact.code_.size() > std::numeric_limits<uint32_t>::max()) {
    return Status{Code::invalid_argument, "the steps of rank " + std::to_string(plan.rank.value()) +
                                              " need more than 4 GB"};
  }
  return compact;
}

void CompactPlan::write(const RankPlan& plan, const std::vector<uint32_t>& order,
                        const std::vector<uint32_t>& queue_numbers) {
  size_t at = 0;
  for (Queue& queue : queues_) {
    queue.begin = static_cast<uint32_t>(code_.size());
    CompactStep before;
    for (uint32_t i = 0; i < queue.length; ++i, ++at) add(plan.steps[order[at]], order[at], before);
  }
  staged_begin_ = static_cast<uint32_t>(code_.size());
  for (uint32_t i = 0; i < steps_; ++i) {
    if (plan.steps[i].kind != StepKind::receive_reduce) continue;
    put(queue_numbers[i]);
    ++staged_count_;
  }
  for (uint32_t i = 0; i < steps_; ++i) {
    const Step& step = plan.steps[i];
    if (has_peer(step.kind)) continue;
    auto position = static_cast<uint32_t>(code_.size());
    CompactStep before;
    add(step, i, before);
    CompactStep& copy = copies_.emplace_back();
    read_step(position, copy);
  }
  code_.shrink_to_fit();
}

}  // namespace r2ccl::sim
