#include "runtime/engine/farewells.h"

#include <utility>

#include "base/mutant.h"
#include "runtime/link/notice.h"

namespace r2ccl {

void Farewells::begin(Rank rank, bool last) {
  Parting& parting = at(rank);
  if (std::exchange(parting.begun, true)) return;
  parting.last = last;
  last ? members_.link(rank)->begin_goodbye() : static_cast<void>(++unsent_);
}

void Farewells::send() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    Parting& parting = ranks_[i];
    if (!parting.begun || parting.last || parting.told) continue;
    const Link& link = *members_.link(rank);
    const bool arrived = link.idle(members_.context()) || mutated(Mutant::ended_early);
    if (!link.peer_ended() && !arrived) continue;
    parting.told = true;
    --unsent_;
    if (!link.peer_ended()) members_.tell(rank, NoticeKind::ended, {});
  }
}

void Farewells::tell_at_once() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    const Link* link = members_.link(rank);
    if (link == nullptr || link->peer_ended() || ranks_[i].last || ranks_[i].told) continue;
    ranks_[i].told = true;
    members_.tell(rank, NoticeKind::ended, {});
  }
}

bool Farewells::told(Rank rank) const {
  const Link& link = *members_.link(rank);
  const Parting& parting = at(rank);
  if (!parting.begun || link.peer_ended() || link.goodbye_done()) return true;
  return parting.last ? link.goodbye_told()
                      : parting.told && link.notice_delivered(members_.slot(NoticeKind::ended));
}

bool Farewells::done(Rank rank) const {
  const Link& link = *members_.link(rank);
  if (waived(rank) || link.peer_ended() || link.goodbye_done()) return true;
  return at(rank).begun && told(rank) && ended(rank) && link.all_delivered();
}

}  // namespace r2ccl
