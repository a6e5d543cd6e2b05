#include "runtime/job_parts.h"

namespace r2ccl {

void JobParts::add(JobPart& part) {
  if (std::ranges::find(all_, &part) != all_.end()) return;
  // A part has at most two contexts. First, because a part that is here must have begun.
  closed_.reserve(closed_.size() + 2 * (all_.size() + 1));
  all_.push_back(&part);
}

bool JobParts::go_on_without(const JobPart& part) const {
  return std::ranges::any_of(all_, [&](const JobPart* each) {
    return each != &part && !each->leaving() && !each->failed();
  });
}

bool JobParts::need(Rank peer, const JobPart& but_for) const {
  return holds_ > 0 || any_with(peer, [&](const JobPart& each, Rank rank) {
           return &each != &but_for && each.needs(rank);
         });
}

void JobParts::route(Rank peer, const NoticeView& notice, std::span<const std::byte> bytes) {
  if (notice.kind == NoticeKind::job_failure) {
    return for_each_with(peer,
                         [&](JobPart& part, Rank rank) { part.on_notice(rank, notice, bytes); });
  }
  for (JobPart* part : all_) {
    const Rank rank = part->rank_of(peer);
    if (part->has_context(notice.context) && rank != kNoRank) {
      return part->on_notice(rank, notice, bytes);
    }
  }
  if (!is_closed(notice.context)) early_notices_.keep(peer, notice, bytes);
  if (!EarlyNotices::is_end(notice.kind)) return;
  forget(notice.context, peer);
  // The measurement of the first communicator ends with it.
  if (notice.context == ContextId()) forget(ContextId(1), peer);
}

void JobParts::hand_over_notices(const JobPart& part) {
  early_notices_.take(
      [&](ContextId context) { return part.has_context(context); },
      [&](Rank peer, std::span<const std::byte> bytes) { route(peer, view_notice(bytes), bytes); });
}

bool JobParts::is_new(ContextId context) const {
  return !is_closed(context) && std::ranges::none_of(all_, [context](const JobPart* part) {
    return part->has_context(context);
  });
}

void JobParts::close(ContextId context) {
  early_notices_.take([context](ContextId each) { return each == context; },
                      [](Rank, std::span<const std::byte>) {});
  const auto place = std::ranges::lower_bound(closed_, context);
  if (place == closed_.end() || *place != context) closed_.insert(place, context);
}

void JobParts::forget(ContextId context, Rank peer) {
  if (Link* link = engine_.link(peer)) link->close(context);
}

}  // namespace r2ccl
