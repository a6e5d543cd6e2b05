#include "protocol/path/heartbeats.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

constexpr TimeNs kBeat = limits::kHeartbeatInterval;
// A stream that was pinged so short a time ago needs no heartbeat.
constexpr TimeNs kJustPinged = kBeat / 2;

}  // namespace

Heartbeats::Heartbeats(std::vector<PathEnd*> paths, bool opens, size_t links, size_t shift)
    : paths_(std::move(paths)),
      opens_(opens),
      checks_(std::clamp<size_t>(limits::kIdleChecksMax / links, 1, paths_.size())),
      idle_beat_(idle_interval(links)),
      turn_at_(static_cast<TimeNs>(shift) * kBeat % idle_beat_),
      cursor_(shift / static_cast<size_t>(idle_beat_ / kBeat) * checks_ % paths_.size()) {}

TimeNs Heartbeats::idle_interval(size_t links) {
  if (mutated(Mutant::tune_heartbeat_turns)) return kBeat;
  return static_cast<TimeNs>((links + limits::kIdleChecksMax - 1) / limits::kIdleChecksMax) * kBeat;
}

bool Heartbeats::takes_ping(const PathEnd& path, TimeNs now) {
  return path.control_writable() && !path.broken && !path.paused() &&
         now - path.health.last_ping_at >= kJustPinged;
}

// Returns the number of streams that are to carry a heartbeat in this interval.
size_t Heartbeats::wanted(const Now& now, bool works) const {
  const TimeNs silence = now.time - now.heard_at;
  const TimeNs beat = works ? kBeat : idle_beat_;
  const bool unheard = silence >= beat + kBeat / 2;
  if (!opens_ && !unheard && !mutated(Mutant::tune_heartbeat_ends)) return 0;
  if (works && !mutated(Mutant::tune_heartbeat_work)) return paths_.size();
  const bool in_turn = now.wall % idle_beat_ / kBeat == turn_at_ / kBeat;
  if (!in_turn && !unheard) return 0;
  return mutated(Mutant::one_stream) ? 1 : checks_;
}

const std::vector<PathEnd*>& Heartbeats::take(const Now& now) {
  next_at_ = now.time + std::max(kBeat - now.wall % kBeat, now.spacing);
  const bool works = std::exchange(work_, now.work) != now.work;
  chosen_.clear();
  const size_t wanted = this->wanted(now, works);
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
  return static_cast<TimeNs>((paths_.size() + checks_ - 1) / checks_) * idle_beat_;
}

void Heartbeats::check_invariants() const {
  R2CCL_CHECK(checks_ >= 1 && checks_ <= paths_.size());
  R2CCL_CHECK(cursor_ < paths_.size());
}

}  // namespace r2ccl
