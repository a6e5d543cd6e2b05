// Progress: runs the plan under the tightest rules that an executor may have. All of them have the
// form "this starts only when that is complete". So one run proves it for every order of events,
// and any executor with more freedom has a subset of the constraints.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "plan/analysis/checker_parts.h"

namespace r2ccl::checker {
namespace {

class TightRun {
 public:
  explicit TightRun(const Subject& subject) : subject_(subject), ranks_(subject.plans.size()) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<Step>& steps = subject.plans[rank].steps;
      RankState& state = ranks_[rank];
      state.dependents.resize(steps.size());
      state.complete.resize(steps.size());
      state.arrived.resize(steps.size());
      for (uint32_t i = 0; i < steps.size(); ++i) {
        state.pending.push_back(static_cast<uint32_t>(steps[i].after.size()));
        for (const uint32_t before : steps[i].after) state.dependents[before].push_back(i);
        if (steps[i].kind == StepKind::receive_reduce) state.staged.push_back(i);
      }
    }
  }

  Result<std::vector<StepId>> run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].pending.size(); ++i) {
        if (ranks_[rank].pending[i] == 0) open_.push_back({rank, i});
      }
    }
    while (!open_.empty()) {
      const StepId id = open_.back();
      open_.pop_back();
      attempt(id);
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& complete = ranks_[rank].complete;
      const auto stuck = std::find(complete.begin(), complete.end(), false);
      if (stuck != complete.end()) {
        return subject_.wrong({rank, static_cast<uint32_t>(stuck - complete.begin())},
                              "never completes: deadlock");
      }
    }
    return std::move(schedule_);
  }

 private:
  struct RankState {
    std::vector<uint32_t> pending;
    std::vector<std::vector<uint32_t>> dependents;
    std::vector<bool> complete;
    std::vector<bool> arrived;     // receive_reduce steps: the bytes lie in the slot
    std::vector<uint32_t> staged;  // receive_reduce steps: one slot, assigned in this order
    size_t staged_complete = 0;
  };

  void attempt(StepId id) {
    const Step& step = subject_.step(id);
    if (ranks_[id.rank].complete[id.index]) return;
    if (!has_peer(step.kind) || ranks_[id.rank].arrived[id.index]) {
      if (ranks_[id.rank].pending[id.index] == 0) complete(id);
      return;
    }
    const auto peer = static_cast<size_t>(step.peer.value());
    const bool sends = step.kind == StepKind::send;
    attempt_message(sends ? id.rank : peer, sends ? peer : id.rank);
  }

  // Completes the next message of a step queue if both of its ends are ready.
  void attempt_message(size_t from, size_t to) {
    const Exchange& exchange = subject_.exchanges.at({from, to});
    size_t& next = messages_done_[{from, to}];
    if (next == exchange.sends.size()) return;
    const StepId send{from, exchange.sends[next]};
    const StepId receive{to, exchange.receives[next]};
    RankState& receiver = ranks_[to];
    if (ranks_[from].pending[send.index] != 0) return;
    if (subject_.step(receive).kind == StepKind::receive_reduce) {
      // Only the reduction waits for `after`. The bytes wait for the slot.
      if (receiver.staged[receiver.staged_complete] != receive.index) return;
      receiver.arrived[receive.index] = true;
      complete(send);
      open_.push_back(receive);
    } else {
      if (receiver.pending[receive.index] != 0) return;
      complete(send);
      complete(receive);
    }
    if (++next < exchange.sends.size()) open_.push_back({from, exchange.sends[next]});
  }

  void complete(StepId id) {
    RankState& state = ranks_[id.rank];
    R2CCL_CHECK(state.pending[id.index] == 0 && !state.complete[id.index]);
    state.complete[id.index] = true;
    schedule_.push_back(id);
    if (subject_.step(id).kind == StepKind::receive_reduce &&
        ++state.staged_complete < state.staged.size()) {
      open_.push_back({id.rank, state.staged[state.staged_complete]});
    }
    for (const uint32_t dependent : state.dependents[id.index]) {
      if (--state.pending[dependent] == 0) open_.push_back({id.rank, dependent});
    }
  }

  const Subject& subject_;
  std::vector<RankState> ranks_;
  std::map<std::pair<size_t, size_t>, size_t> messages_done_;
  std::vector<StepId> open_;  // steps that an event may just have made possible
  std::vector<StepId> schedule_;
};

}  // namespace

Result<std::vector<StepId>> check_progress(const Subject& subject) {
  return TightRun(subject).run();
}

}  // namespace r2ccl::checker
