// Smaller communicators: the part of a rank in their agreement, also after its failure.
#include <utility>
#include <vector>

#include "runtime/child_numbers.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

bool RankRuntime::gone(Rank rank) const {
  const Link* link = members_->link(rank);
  return link != nullptr && (farewells_->ended(rank) || link->peer_ended());
}

ShrinkOutcome RankRuntime::end_of(Rank rank) const {
  const auto end = members_->link(rank)->peer_end();
  if (farewells_->ended(rank) || !end) return ShrinkOutcome::left;
  switch (*end) {
    case PeerEnd::goodbye:
      return ShrinkOutcome::left;
    case PeerEnd::dead:
      return ShrinkOutcome::died;
    case PeerEnd::cut_off:
      return ShrinkOutcome::cut_off;
  }
  return ShrinkOutcome::left;
}

RankShrinks& RankRuntime::make_shrinks() {
  if (shrinks_ != nullptr) return *shrinks_;
  const size_t hosts = views_ == nullptr ? members_->map().hosts() : views_->hosts();
  shrinks_ = std::make_unique<RankShrinks>(*members_, hosts, clock_, options_.shrink_patience);
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (gone(Rank(rank))) shrinks_->on_gone(Rank(rank), end_of(Rank(rank)));
  }
  return *shrinks_;
}

Status RankRuntime::begin_shrink(std::vector<Rank> excluded) {
  if (halted()) return failure_;
  if (make_shrinks().waits()) {
    return {Code::invalid_usage, "an earlier call on this communicator has not returned"};
  }
  const View view = views_ == nullptr ? View() : views_->agreement().latest().view;
  return make_shrinks().call(std::move(excluded), view);
}

// An excluded rank may have left already.
void RankRuntime::waive(const std::vector<Rank>& excluded) {
  for (const Rank rank : excluded) {
    farewells_->waive(rank);
    const bool owed = failure_.ok() && !halted() && !members_->link(rank)->peer_ended();
    if (owed && farewells_->ended(rank)) answer(rank);
  }
}

// The others have made a communicator with a call that this rank has given up.
void RankRuntime::refuse_ghosts() {
  for (const ShrinkSubject& subject : shrinks_->take_ghosts()) {
    std::vector<Rank> peers;
    Rank self;
    for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
      if (has(subject.excluded, Rank(rank))) continue;
      if (Rank(rank) == options_.self) self = Rank(static_cast<int32_t>(peers.size()));
      peers.push_back(members_->peer_of(Rank(rank)));
    }
    const ContextId context = ChildNumbers(comm_id_).of_shrink(subject.excluded, subject.ordinal);
    Members members(engine_, context, self, std::move(peers));
    tell_refusal(members,
                 {Code::timeout, "its r2cclCommShrink had ended before the others agreed"});
  }
}

void RankRuntime::abort(const std::string& why) {
  fail_of({options_.self}, Code::aborted, why);
  if (shrinks_ != nullptr && !halted()) shrinks_->withdraw();
}

}  // namespace r2ccl
