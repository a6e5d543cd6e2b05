#include "plan/analysis/checker.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "plan/analysis/checker_parts.h"

namespace r2ccl {
namespace checker {
namespace {

std::string name_of(const Step& step) {
  const std::string peer = std::to_string(step.peer.value());
  switch (step.kind) {
    case StepKind::send:
      return "send to rank " + peer;
    case StepKind::receive:
      return "receive from rank " + peer;
    case StepKind::receive_reduce:
      return "receive_reduce from rank " + peer;
    case StepKind::copy:
      return "copy";
    case StepKind::reduce:
      return "reduce";
  }
  return "?";
}

std::string range_of(const Region& region) {
  return "[" + std::to_string(region.offset) + ", " + std::to_string(region.offset + region.count) +
         ")";
}

bool lies_in_buffer(const Subject& subject, size_t rank, const Region& region) {
  const Extents& extents = subject.contents[rank].extents;
  const RankPlan& plan = subject.plans[rank];
  const uint64_t count = region.buffer == Buffer::input    ? extents.input_count
                         : region.buffer == Buffer::output ? extents.output_count
                         : region.buffer == Buffer::wide   ? plan.wide
                                                           : plan.scratch;
  return region.offset <= count && region.count <= count - region.offset;
}

// Only reductions and copies know the wide form of an element.
Status check_wide(const Subject& subject, StepId id) {
  const Step& step = subject.step(id);
  const bool from = reads(step) && step.source.buffer == Buffer::wide;
  const bool to = writes(step) && step.target.buffer == Buffer::wide;
  if (adds(step) && step.addend.buffer == Buffer::wide) {
    return subject.wrong(id, "adds from wide memory");
  }
  if (!from && !to) return Status::ok_status();
  if (!subject.has_wide_form()) return subject.wrong(id, "uses a wide form that the type has not");
  if (step.kind == StepKind::send) return subject.wrong(id, "sends what is not rounded");
  if (step.kind == StepKind::receive) return subject.wrong(id, "receives into wide memory");
  if (step.kind == StepKind::copy && from && to) {
    return subject.wrong(id, "copies within wide memory");
  }
  return Status::ok_status();
}

Status check_step(const Subject& subject, StepId id) {
  const Step& step = subject.step(id);
  for (const uint32_t before : step.after) {
    if (before >= id.index) return subject.wrong(id, "comes after a step that is not earlier");
  }
  const auto peer = static_cast<size_t>(step.peer.value());
  if (has_peer(step.kind) && (peer >= subject.plans.size() || peer == id.rank)) {
    return subject.wrong(id, "has no such peer");
  }
  R2CCL_RETURN_IF_ERROR(check_wide(subject, id));
  if (reads(step) && !lies_in_buffer(subject, id.rank, step.source)) {
    return subject.wrong(id, "reads outside of the buffer");
  }
  if (!writes(step)) return Status::ok_status();
  if (!lies_in_buffer(subject, id.rank, step.target)) {
    return subject.wrong(id, "writes outside of the buffer");
  }
  if (step.target.buffer == Buffer::input) return subject.wrong(id, "writes the input");
  if (reads(step) && step.source.count != step.target.count) {
    return subject.wrong(id, "reads and writes different counts");
  }
  if (!adds(step)) return Status::ok_status();
  if (!lies_in_buffer(subject, id.rank, step.addend)) {
    return subject.wrong(id, "adds from outside of the buffer");
  }
  if (step.addend.count != step.target.count) {
    return subject.wrong(id, "adds and writes different counts");
  }
  return Status::ok_status();
}

const Region& region_of(const Step& step) {
  return step.kind == StepKind::send ? step.source : step.target;
}

}  // namespace

Status Subject::wrong(StepId id, const std::string& why) const {
  const Step& what = step(id);
  return Status(Code::internal, "rank " + std::to_string(id.rank) + " step " +
                                    std::to_string(id.index) + " (" + name_of(what) +
                                    ", elements " + range_of(region_of(what)) + ") " + why);
}

uint64_t Subject::address_of(size_t rank, const Region& region) const {
  if (!in_place(rank) || is_own_memory(region.buffer)) return region.offset;
  const Overlay& overlay = contents[rank].overlay;
  return region.offset + (region.buffer == Buffer::input ? overlay.input_at : overlay.output_at);
}

Status check_shape(const Subject& subject) {
  for (size_t rank = 0; rank < subject.plans.size(); ++rank) {
    const RankPlan& plan = subject.plans[rank];
    if (static_cast<size_t>(plan.rank.value()) != rank) {
      return Status(Code::internal, "plan " + std::to_string(rank) + " is for another rank");
    }
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
      R2CCL_RETURN_IF_ERROR(check_step(subject, {rank, i}));
    }
  }
  return Status::ok_status();
}

Status check_matching(Subject& subject) {
  for (size_t rank = 0; rank < subject.plans.size(); ++rank) {
    const std::vector<Step>& steps = subject.plans[rank].steps;
    subject.sends.emplace_back(steps.size());
    for (uint32_t i = 0; i < steps.size(); ++i) {
      const auto peer = static_cast<size_t>(steps[i].peer.value());
      if (!has_peer(steps[i].kind)) continue;
      if (steps[i].kind == StepKind::send) {
        subject.exchanges[{rank, peer}].sends.push_back(i);
      } else {
        subject.exchanges[{peer, rank}].receives.push_back(i);
      }
    }
  }
  for (const auto& [pair, exchange] : subject.exchanges) {
    const size_t messages = std::min(exchange.sends.size(), exchange.receives.size());
    for (size_t i = 0; i < messages; ++i) {
      const StepId send{pair.first, exchange.sends[i]};
      const StepId receive{pair.second, exchange.receives[i]};
      subject.sends[receive.rank][receive.index] = send;
      const Region& sent = region_of(subject.step(send));
      const Region& received = region_of(subject.step(receive));
      if (sent.count != received.count) {
        return subject.wrong(receive, "meets a send of elements " + range_of(sent));
      }
    }
    if (exchange.sends.size() > messages) {
      return subject.wrong({pair.first, exchange.sends[messages]}, "meets no receive");
    }
    if (exchange.receives.size() > messages) {
      return subject.wrong({pair.second, exchange.receives[messages]}, "meets no send");
    }
  }
  return Status::ok_status();
}

}  // namespace checker

Status check_plan(const std::vector<PlanKey>& keys, const std::vector<RankPlan>& plans) {
  R2CCL_CHECK(!keys.empty() && keys.size() == static_cast<size_t>(keys[0].rank_count));
  R2CCL_CHECK(plans.size() == keys.size());
  checker::Subject subject{keys, plans};
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    subject.contents.push_back(contents_of(keys[rank], Rank(static_cast<int32_t>(rank))));
  }
  R2CCL_RETURN_IF_ERROR(checker::check_shape(subject));
  R2CCL_RETURN_IF_ERROR(checker::check_matching(subject));
  R2CCL_RETURN_IF_ERROR(checker::check_order(subject));
  const Result<std::vector<checker::StepId>> schedule = checker::check_progress(subject);
  R2CCL_RETURN_IF_ERROR(schedule.status());
  return keys[0].collective == Collective::barrier
             ? checker::check_barrier(subject, schedule.value())
             : checker::check_values(subject, schedule.value());
}

}  // namespace r2ccl
