#include "plan/plan_builder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace r2ccl {

void PlanBuilder::send(Rank peer, const Region& source) {
  if (source.count == 0) return;
  add({.kind = StepKind::send, .peer = peer, .source = source});
}

void PlanBuilder::receive(Rank peer, const Region& target) {
  if (target.count == 0) return;
  add({.kind = StepKind::receive, .peer = peer, .target = target});
}

void PlanBuilder::receive_reduce(Rank peer, const Region& source, const Region& target,
                                 bool last_reduction, Operands operands) {
  if (target.count == 0) return;
  add({.kind = StepKind::receive_reduce,
       .peer = peer,
       .source = source,
       .target = target,
       .operands = operands,
       .last_reduction = last_reduction});
}

void PlanBuilder::send_pieces(Rank peer, const Region& source, uint64_t piece_count) {
  for_each_piece(source, piece_count, [&](const Region& piece) { send(peer, piece); });
}

void PlanBuilder::receive_pieces(Rank peer, const Region& target, uint64_t piece_count) {
  for_each_piece(target, piece_count, [&](const Region& piece) { receive(peer, piece); });
}

void PlanBuilder::copy(const Region& source, const Region& target) {
  if (target.count == 0 || in_place_) return;
  add({.kind = StepKind::copy, .source = source, .target = target});
}

void PlanBuilder::signal(Rank peer) {
  plan_.steps.push_back({.kind = StepKind::send, .peer = peer, .after = awaited_});
}

void PlanBuilder::await(Rank peer) {
  awaited_.push_back(static_cast<uint32_t>(plan_.steps.size()));
  plan_.steps.push_back(
      {.kind = StepKind::receive, .peer = peer, .target = {.buffer = Buffer::output}});
}

void PlanBuilder::add(Step step) {
  const auto index = static_cast<uint32_t>(plan_.steps.size());
  // A step that writes reads at most the same elements, so its write orders both.
  const bool writes = step.kind != StepKind::send;
  const bool reads = !writes && is_written(step.source.buffer);
  if (reads) read(step.source, step);
  if (writes) write(step.target, step);
  std::sort(step.after.begin(), step.after.end());
  step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
  if (reads) note_read(step.source, index);
  if (writes) note_write(step.target, index);
  plan_.steps.push_back(std::move(step));
}

void PlanBuilder::read(const Region& region, Step& step) {
  const auto end = cut(region.offset + region.count);
  for (auto it = cut(region.offset); it != end; ++it) {
    if (it->second.writer != kNobody) step.after.push_back(it->second.writer);
  }
}

void PlanBuilder::write(const Region& region, Step& step) {
  const auto end = cut(region.offset + region.count);
  for (auto it = cut(region.offset); it != end; ++it) {
    const Access& access = it->second;
    // The readers come after the writer themselves.
    if (!access.readers.empty()) {
      step.after.insert(step.after.end(), access.readers.begin(), access.readers.end());
    } else if (access.writer != kNobody) {
      step.after.push_back(access.writer);
    }
  }
}

void PlanBuilder::note_read(const Region& region, uint32_t step) {
  const uint64_t end = region.offset + region.count;
  auto it = cut(region.offset);
  cut(end);
  for (uint64_t at = region.offset; at < end; at = it->second.end, ++it) {
    if (it == accesses_.end() || it->first > at) {
      const uint64_t gap_end = it == accesses_.end() ? end : std::min(end, it->first);
      it = accesses_.insert(it, {at, Access{.end = gap_end}});
    }
    it->second.readers.push_back(step);
  }
}

void PlanBuilder::note_write(const Region& region, uint32_t step) {
  const uint64_t end = region.offset + region.count;
  const auto first = cut(region.offset);
  const auto last = cut(end);
  const auto next = accesses_.erase(first, last);
  accesses_.insert(next, {region.offset, Access{.end = end, .writer = step}});
}

// Returns the first range that starts at or after `position`, once no range lies across it.
PlanBuilder::Accesses::iterator PlanBuilder::cut(uint64_t position) {
  const auto next = accesses_.lower_bound(position);
  if (next == accesses_.begin()) return next;
  Access& before = std::prev(next)->second;
  if (before.end <= position) return next;
  Access rest = before;
  before.end = position;
  return accesses_.insert(next, {position, std::move(rest)});
}

}  // namespace r2ccl
