#include "plan/plan_builder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace r2ccl {

void PlanBuilder::send(Rank peer, const Region& source, std::vector<uint32_t> after) {
  if (source.count == 0) return;
  add({.kind = StepKind::send, .peer = peer, .source = source, .after = std::move(after)});
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

void PlanBuilder::reduce(const Region& source, const Region& addend, const Region& target,
                         bool last_reduction) {
  if (target.count == 0) return;
  add({.kind = StepKind::reduce,
       .source = source,
       .target = target,
       .addend = addend,
       .last_reduction = last_reduction});
}

void PlanBuilder::send_pieces(Rank peer, const Region& source, uint64_t piece_count) {
  for_each_piece(source, piece_count, [&](const Region& piece) { send(peer, piece); });
}

void PlanBuilder::receive_pieces(Rank peer, const Region& target, uint64_t piece_count) {
  for_each_piece(target, piece_count, [&](const Region& piece) { receive(peer, piece); });
}

void PlanBuilder::copy(const Region& source, const Region& target) {
  if (target.count == 0 || same_place(source, target)) return;
  add({.kind = StepKind::copy, .source = source, .target = target});
}

Region PlanBuilder::take_wide(uint64_t count) {
  R2CCL_CHECK(count <= wide_count_);
  if (wide_taken_ + count > wide_count_) wide_taken_ = 0;
  const Region place{Buffer::wide, wide_taken_, count};
  wide_taken_ += count;
  plan_.wide = std::max(plan_.wide, wide_taken_);
  return place;
}

void PlanBuilder::send_empty(Rank peer) {
  plan_.steps.push_back({.kind = StepKind::send, .peer = peer});
}

void PlanBuilder::receive_empty(Rank peer) {
  plan_.steps.push_back(
      {.kind = StepKind::receive, .peer = peer, .target = {.buffer = Buffer::output}});
}

uint64_t PlanBuilder::address_of(const Region& region) const {
  if (!in_place_ || region.buffer == Buffer::scratch || region.buffer == Buffer::wide) {
    return region.offset;
  }
  return region.offset + (region.buffer == Buffer::input ? overlay_.input_at : overlay_.output_at);
}

bool PlanBuilder::same_place(const Region& a, const Region& b) const {
  const auto memory = [&](Buffer buffer) {
    return in_place_ && buffer == Buffer::input ? Buffer::output : buffer;
  };
  return memory(a.buffer) == memory(b.buffer) && address_of(a) == address_of(b);
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
  const bool writes = step.kind != StepKind::send;
  // Where a step reads and writes the same place, its write orders both.
  const auto is_read = [&](const Region& region) {
    return is_written(region.buffer) && !(writes && same_place(region, step.target));
  };
  const bool reads = step.kind != StepKind::receive && is_read(step.source);
  const bool adds = step.kind == StepKind::reduce && is_read(step.addend);
  if (reads) read(step.source, step);
  if (adds) read(step.addend, step);
  if (writes) write(step.target, step);
  std::sort(step.after.begin(), step.after.end());
  step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
  if (reads) note_read(step.source, index);
  if (adds) note_read(step.addend, index);
  if (writes) note_write(step.target, index);
  plan_.steps.push_back(std::move(step));
}

void PlanBuilder::read(const Region& region, Step& step) {
  Accesses& accesses = accesses_to(region);
  const uint64_t begin = address_of(region);
  const auto end = cut(accesses, begin + region.count);
  for (auto it = cut(accesses, begin); it != end; ++it) {
    if (it->second.writer != kNobody) step.after.push_back(it->second.writer);
  }
}

void PlanBuilder::write(const Region& region, Step& step) {
  Accesses& accesses = accesses_to(region);
  const uint64_t begin = address_of(region);
  const auto end = cut(accesses, begin + region.count);
  for (auto it = cut(accesses, begin); it != end; ++it) {
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
  Accesses& accesses = accesses_to(region);
  const uint64_t begin = address_of(region);
  const uint64_t end = begin + region.count;
  auto it = cut(accesses, begin);
  cut(accesses, end);
  for (uint64_t at = begin; at < end; at = it->second.end, ++it) {
    if (it == accesses.end() || it->first > at) {
      const uint64_t gap_end = it == accesses.end() ? end : std::min(end, it->first);
      it = accesses.insert(it, {at, Access{.end = gap_end}});
    }
    it->second.readers.push_back(step);
  }
}

void PlanBuilder::note_write(const Region& region, uint32_t step) {
  Accesses& accesses = accesses_to(region);
  const uint64_t begin = address_of(region);
  const uint64_t end = begin + region.count;
  const auto first = cut(accesses, begin);
  const auto last = cut(accesses, end);
  const auto next = accesses.erase(first, last);
  accesses.insert(next, {begin, Access{.end = end, .writer = step}});
}

// Returns the first range that starts at or after `position`, once no range lies across it.
PlanBuilder::Accesses::iterator PlanBuilder::cut(Accesses& accesses, uint64_t position) {
  const auto next = accesses.lower_bound(position);
  if (next == accesses.begin()) return next;
  Access& before = std::prev(next)->second;
  if (before.end <= position) return next;
  Access rest = before;
  before.end = position;
  return accesses.insert(next, {position, std::move(rest)});
}

}  // namespace r2ccl
