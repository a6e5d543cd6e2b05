#include "runtime/early_notices.h"

#include <algorithm>
#include <iterator>

#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// A peer may use the channels of so many before this process opens them.
constexpr size_t kContextsMax = limits::kContextsUnopenedMax;
// The ends of so many are kept: this process may make them yet.
constexpr size_t kEndedMax = 128;  // notices, up to two for each
// A context has so many notices at most. Its kinds have one to five subjects; a faulty peer may
// invent others.
constexpr size_t kNoticesMax = 32;

}  // namespace

void EarlyNotices::keep(Rank peer, const NoticeView& notice, std::span<const std::byte> bytes) {
  if (mutated(Mutant::early_lost)) return;
  const Slot slot{peer, notice.context, notice.kind, notice.subject};
  if (is_end(notice.kind)) return keep_end(slot, bytes);
  if (has_end(peer, notice.context)) return;
  const auto [first, last] = of_context(peer, notice.context);
  const auto count = static_cast<size_t>(std::distance(first, last));
  const bool too_many = count == 0 ? count_of(peer).living >= kContextsMax
                                   : count >= kNoticesMax && !kept_.contains(slot);
  if (too_many) {
    R2CCL_LOG(info, "rank %d speaks of too many communicators that are not made here",
              peer.value());
    return;
  }
  kept_[slot].assign(bytes.begin(), bytes.end());
}

void EarlyNotices::keep_end(const Slot& slot, std::span<const std::byte> bytes) {
  const auto [first, last] = of_context(slot.peer, slot.context);
  for (auto at = first; at != last;) {
    at = is_end(at->first.kind) ? std::next(at) : kept_.erase(at);
  }
  if (count_of(slot.peer).ended >= kEndedMax) {
    const auto from = kept_.lower_bound({slot.peer, ContextId(), NoticeKind{}, 0});
    const auto oldest =
        std::find_if(from, kept_.end(), [](const auto& each) { return is_end(each.first.kind); });
    const auto [begin, end] = of_context(slot.peer, oldest->first.context);
    kept_.erase(begin, end);
  }
  kept_[slot].assign(bytes.begin(), bytes.end());
}

std::pair<EarlyNotices::Kept::iterator, EarlyNotices::Kept::iterator> EarlyNotices::of_context(
    Rank peer, ContextId context) {
  return {kept_.lower_bound({peer, context, NoticeKind{}, 0}),
          kept_.lower_bound({peer, ContextId(context.value() + 1), NoticeKind{}, 0})};
}

bool EarlyNotices::has_end(Rank peer, ContextId context) const {
  return kept_.contains({peer, context, NoticeKind::failure, 0}) ||
         kept_.contains({peer, context, NoticeKind::ended, 0});
}

EarlyNotices::Counts EarlyNotices::count_of(Rank peer) const {
  Counts counts;
  ContextId last;
  for (auto at = kept_.lower_bound({peer, ContextId(), NoticeKind{}, 0});
       at != kept_.end() && at->first.peer == peer; ++at) {
    if (is_end(at->first.kind)) {
      ++counts.ended;
    } else if (counts.living == 0 || at->first.context != last) {
      ++counts.living;
      last = at->first.context;
    }
  }
  return counts;
}

}  // namespace r2ccl
