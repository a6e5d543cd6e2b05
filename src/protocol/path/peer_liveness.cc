#include "protocol/path/peer_liveness.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// Small pauses, of which a busy rank has many, must not put off the cut-off for ever.
constexpr TimeNs kLongPause = 1 * kSecond;
// A peer that nothing reaches for this long after its goodbye has left. Shorter than the bound of
// finalize.
constexpr TimeNs kLeftAfter = 5 * kSecond;
// A peer that answers on another path lives: a firewall, or another host, refused. A connection in
// a black hole looks open after the peer has left. The kernel of a stopped peer answers too, so
// only the network delays the answer.
constexpr TimeNs kSilent = 50 * kMillisecond;
constexpr TimeNs kAllDownInterval = 20 * kMillisecond;

}  // namespace

bool PeerLiveness::on_all_down(TimeNs now) {
  if (all_down_since_ != 0) return false;
  all_down_since_ = now;
  evidence_.on_all_down(now);
  return true;
}

bool PeerLiveness::on_silence(TimeNs silence, TimeNs now) {
  if (silence < kSilent || doubtful_ || all_down()) return false;
  if (!evidence_.closed_lately(now) || mutated(Mutant::dead_in_the_dark)) return false;
  evidence_.on_all_down(now);
  doubtful_ = true;
  return true;
}

// Notes since when no path carries data. After its goodbye the peer waits for this rank's. So
// neither the goodbye nor closed connections show that the peer has left: a path may have failed,
// and one in a black hole does not tell that the peer closed it too.
void PeerLiveness::on_data_paths(bool carries, bool carried, TimeNs now) {
  if (carries || !carried) {
    no_data_since_ = 0;
  } else if (no_data_since_ == 0) {
    no_data_since_ = now;
  }
}

void PeerLiveness::compensate_idle(TimeNs duration, TimeNs now) {
  R2CCL_CHECK(duration >= 0);
  if (duration <= kLongPause) return;
  for (TimeNs* since : {&all_down_since_, &no_data_since_}) {
    if (*since != 0) *since = std::min(*since + duration, now);
  }
}

TimeNs PeerLiveness::away(TimeNs silence, TimeNs now) const {
  const TimeNs down = all_down_since_ == 0 ? 0 : now - all_down_since_;
  const TimeNs no_data = no_data_since_ == 0 ? 0 : now - no_data_since_;
  return std::max({down, no_data, silence});
}

std::optional<PeerLiveness::End> PeerLiveness::check(Goodbye goodbye, TimeNs silence,
                                                     TimeNs now) const {
  const TimeNs down = all_down_since_ == 0 ? 0 : now - all_down_since_;
  const TimeNs gone = goodbye.relayed ? std::max(down, silence) : down;
  const bool refused = evidence_.refusals() > 0 && (all_down() || silence >= kSilent);
  if (goodbye.heard && (refused || gone >= kLeftAfter)) {
    return End{PeerEnd::goodbye, "the peer left in order"};
  }
  // After its goodbye a process may end before all of its connections show that here.
  if (!goodbye.heard && evidence_.proves_death()) {
    return End{PeerEnd::dead, "its kernel refuses new connections"};
  }
  if (away(silence, now) < cutoff_) return std::nullopt;
  return End{PeerEnd::cut_off,
             "no path has reached it for " + std::to_string(cutoff_ / kSecond) + " s"};
}

TimeNs PeerLiveness::next_timeout(TimeNs now) const {
  TimeNs next = kNever;
  if (no_data_since_ != 0) {
    const TimeNs told = no_data_since_ + limits::kUnreachedTold;
    next = told > now ? told : no_data_since_ + cutoff_;
  }
  if (all_down_since_ != 0) next = std::min(next, now + kAllDownInterval);
  return next;
}

void PeerLiveness::check_invariants() const {
  R2CCL_CHECK(cutoff_ > 0);
  R2CCL_CHECK(all_down_since_ >= 0 && no_data_since_ >= 0);
  evidence_.check_invariants();
}

}  // namespace r2ccl
