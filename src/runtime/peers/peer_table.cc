#include "runtime/peers/peer_table.h"

#include <optional>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

// Bounds the passes of each link in one pass: completions post more work, which completes.
constexpr int kRoundsMax = 64;

}  // namespace

void PeerTable::reserve(size_t ranks) {
  schedule_ = LinkSchedule(ranks);
  slots_.resize(ranks);
}

void PeerTable::add(std::unique_ptr<Link> link) {
  const Rank peer = link->peer();
  R2CCL_CHECK(links_.empty() || links_.back()->peer() < peer);
  links_.push_back(link.get());
  slots_[index(peer)].link = std::move(link);
  wake(peer);
}

void PeerTable::progress(TimeNs now, TimeNs share, PauseMeter& pauses) {
  const TimeNs began = now;
  for (int round = 0; round < kRoundsMax && schedule_.any_marked(); ++round) {
    if (round > 0) now = pauses.look();
    if (now - began >= share) return;
    if (pauses.paused()) return;  // every link first compensates for the pause
    std::optional<size_t> next;
    for (size_t from = 0; (next = schedule_.take_marked(from)); from = *next + 1) {
      Slot& slot = slots_[*next];
      Link& link = *slot.link;
      link.progress(now, pauses.total() - std::exchange(slot.pauses, pauses.total()));
      slot.at = now;
      unsent_links_ -= slot.unsent ? 1 : 0;
      slot.unsent = link.has_unsent();
      unsent_links_ += slot.unsent ? 1 : 0;
      // A marked link has another pass before any deadline.
      if (!link.wants_progress()) schedule_.set_deadline(*next, link.next_timeout(now));
    }
  }
}

void PeerTable::check_invariants() const {
  schedule_.check_invariants();
  size_t unsent = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    unsent += slot.unsent ? 1 : 0;
    if (slot.link == nullptr) {
      R2CCL_CHECK(!schedule_.is_marked(i) && schedule_.deadline(i) == kNever);
      continue;
    }
    R2CCL_CHECK(slot.link->wants_progress() == schedule_.is_marked(i));
    slot.link->check_idle_until(schedule_.deadline(i), slot.at);
    slot.link->check_invariants();
  }
  R2CCL_CHECK(unsent == unsent_links_);
}

}  // namespace r2ccl
