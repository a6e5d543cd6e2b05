// The stages of check_plan. Each may rely on the success of the stages before it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/holdings.h"
#include "plan/plan.h"

namespace r2ccl::checker {

// A step of the whole plan.
struct StepId {
  size_t rank = 0;
  uint32_t index = 0;
  friend auto operator<=>(const StepId&, const StepId&) = default;
};

// The steps of one direction between two ranks; entry i of both is the same message.
struct Exchange {
  std::vector<uint32_t> sends;
  std::vector<uint32_t> receives;
};

struct Subject {
  const std::vector<PlanKey>& keys;  // by rank
  const std::vector<RankPlan>& plans;
  std::vector<Contents> contents{};                           // by rank
  std::map<std::pair<size_t, size_t>, Exchange> exchanges{};  // by (from, to)
  // By rank and step: the send whose bytes a receive or receive_reduce takes.
  std::vector<std::vector<StepId>> sends{};

  StepId send_of(StepId receive) const { return sends[receive.rank][receive.index]; }
  const Step& step(StepId id) const { return plans[id.rank].steps[id.index]; }
  bool in_place(size_t rank) const { return keys[rank].in_place; }
  bool has_wide_form() const { return r2ccl::has_wide_form(keys[0].type, keys[0].op); }
  // Returns where the region begins in a piece of memory: of the output, or in place of both.
  uint64_t address_of(size_t rank, const Region& region) const;
  Status wrong(StepId id, const std::string& why) const;
};

// Returns whether the buffer never shares its memory with another one.
inline bool is_own_memory(Buffer buffer) {
  return buffer == Buffer::scratch || buffer == Buffer::wide;
}

inline bool reads(const Step& step) {
  return step.kind != StepKind::receive;
}
// Returns whether the step reads its `addend`.
inline bool adds(const Step& step) {
  return step.kind == StepKind::reduce;
}
inline bool writes(const Step& step) {
  return step.kind != StepKind::send;
}

Status check_shape(const Subject& subject);
Status check_matching(Subject& subject);  // fills exchanges and sends
Status check_order(const Subject& subject);

// Returns the steps in an order that an executor can always follow, with each send before its
// receive.
Result<std::vector<StepId>> check_progress(const Subject& subject);

Status check_values(const Subject& subject, const std::vector<StepId>& schedule);
Status check_barrier(const Subject& subject, const std::vector<StepId>& schedule);

}  // namespace r2ccl::checker
