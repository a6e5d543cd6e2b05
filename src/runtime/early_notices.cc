#include "runtime/early_notices.h"

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// As many as the channels that a peer may use before this process opens them.
constexpr size_t kContextsMax = limits::kChannelsUnopenedMax;
// A context has so many at most. Its kinds have one to five subjects; a faulty peer may invent
// others.
constexpr size_t kNoticesMax = 32;

}  // namespace

void EarlyNotices::keep(Rank peer, const NoticeView& notice, std::span<const std::byte> bytes) {
  if (mutated(Mutant::early_lost)) return;
  const Slot slot{peer, notice.context, notice.kind, notice.subject};
  const Slot first{peer, notice.context, NoticeKind{}, 0};
  const auto of_context = kept_.lower_bound(first);
  const bool fresh = of_context == kept_.end() || of_context->first.peer != peer ||
                     of_context->first.context != notice.context;
  size_t count = 0;
  for (auto at = of_context;
       at != kept_.end() && at->first.peer == peer && at->first.context == notice.context; ++at) {
    ++count;
  }
  if ((fresh && contexts_of(peer) >= kContextsMax) ||
      (count >= kNoticesMax && !kept_.contains(slot))) {
    R2CCL_LOG(info, "rank %d speaks of too many communicators that are not made here",
              peer.value());
    return;
  }
  kept_[slot].assign(bytes.begin(), bytes.end());
}

size_t EarlyNotices::contexts_of(Rank peer) const {
  size_t count = 0;
  ContextId last;
  for (auto at = kept_.lower_bound({peer, ContextId(), NoticeKind{}, 0});
       at != kept_.end() && at->first.peer == peer; ++at) {
    if (count == 0 || at->first.context != last) ++count;
    last = at->first.context;
  }
  return count;
}

}  // namespace r2ccl
