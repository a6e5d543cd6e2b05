#include "protocol/path/heartbeats.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

constexpr TimeNs kBeat = limits::kHeartbeatInterval;
// The end that only answers pings, too, when it has heard nothing for this long.
constexpr TimeNs kUnheard = kBeat + kBeat / 2;
// A stream that was pinged so short a time ago needs no heartbeat.
constexpr TimeNs kJustPinged = kBeat / 2;

}  // namespace

Heartbeats::Heartbeats(std::vector<PathEnd*> paths, bool opens, size_t checks, size_t shift)
    : paths_(std::move(paths)),
      opens_(opens),
      checks_(std::clamp<size_t>(checks, 1, paths_.size())),
      cursor_(shift * checks_ % paths_.size()) {}

bool Heartbeats::takes_ping(const PathEnd& path, TimeNs now) {
  return path.control_writable() && !path.broken && !path.paused() &&
         now - path.health.last_ping_at >= kJustPinged;
}

const std::vector<PathEnd*>& Heartbeats::take(const Now& now) {
  next_at_ = now.time + std::max(kBeat - now.wall % kBeat, now.spacing);
  const bool works = std::exchange(work_, now.work) != now.work;
  chosen_.clear();
  if (!opens_ && now.time - now.heard_at < kUnheard && !mutated(Mutant::tune_heartbeat_ends))
    return chosen_;
  const size_t in_turn = mutated(Mutant::one_stream) ? 1 : checks_;
  const size_t wanted = works && !mutated(Mutant::tune_heartbeat_work) ? paths_.size() : in_turn;
  const size_t count = paths_.size();
  size_t next = cursor_;
  for (size_t i = 0; i < count && chosen_.size() < wanted; ++i) {
    PathEnd* path = paths_[(cursor_ + i) % count];
    if (!takes_ping(*path, now.time)) continue;
    chosen_.push_back(path);
    next = (cursor_ + i + 1) % count;
  }
  if (!works && !mutated(Mutant::one_stream)) cursor_ = next;
  return chosen_;
}

TimeNs Heartbeats::period() const {
  return static_cast<TimeNs>((paths_.size() + checks_ - 1) / checks_) * kBeat;
}

void Heartbeats::check_invariants() const {
  R2CCL_CHECK(checks_ >= 1 && checks_ <= paths_.size());
  R2CCL_CHECK(cursor_ < paths_.size());
}

}  // namespace r2ccl
