#include "runtime/diagnosis/verdict_trust.h"

#include <algorithm>

#include "base/log.h"

namespace r2ccl {
namespace {

// A verdict of a rank that does not localise waits so long for the news that it does. An idle link
// notices the loss of a control stream by its heartbeats, some seconds later than a busy one.
constexpr TimeNs kDoubt = 5 * kSecond;
constexpr size_t kDoubtfulMax = 64;
// One fault makes few verdicts, and all who pass one on do so at once.
constexpr size_t kCountedMax = 64;
// A path that has been up for so long was up when the fault was found.
constexpr TimeNs kSteady = 10 * kSecond;

}  // namespace

void VerdictTrust::look(const std::vector<bool>& ended, TimeNs now) {
  ended_ = &ended;
  if (ready_at_ == kNever && engine_.ready()) ready_at_ = now;
}

// Returns whether the rank may have a control stream to no lower rank, as far as this one can know.
// A lower rank that this one has reached all the time is most probably reached by that rank too.
// Where it is not, the lower rank makes the verdicts.
bool VerdictTrust::may_localise(Rank rank, TimeNs now) const {
  const auto steady = [&](const Path* path) {
    const PathPhase phase = path->state.phase();
    const bool up = phase == PathPhase::up || phase == PathPhase::suspect;
    const TimeNs since = path->state.up_since();
    return up && path->control_writable() && (since <= ready_at_ || since <= now - kSteady);
  };
  for (int32_t lower = 0; lower < rank.value(); ++lower) {
    if (ended_ != nullptr && (*ended_)[static_cast<size_t>(lower)]) continue;
    const bool self = Rank(lower) == engine_.self();
    const Link* link = engine_.link(self ? rank : Rank(lower));
    if (self ? link->ends() : link->peer_said_goodbye()) continue;
    if (std::ranges::any_of(link->paths(), steady)) return false;
  }
  return true;
}

// A rank testifies against its own host in any case: a host that reaches no other localises by
// itself, and the others hear of it when it is back.
bool VerdictTrust::is_against_itself(Rank by, const Verdict& verdict) const {
  return verdict.faulty.host == host_of_[static_cast<size_t>(by.value())] &&
         verdict.scope != Scope::pair && verdict.scope != Scope::rail;
}

bool VerdictTrust::counts(Rank by, const Verdict& verdict, TimeNs now) const {
  return is_against_itself(by, verdict) || may_localise(by, now);
}

bool VerdictTrust::is_new(const Verdict& verdict) {
  std::erase_if(doubtful_, [&](const Said& said) { return said.verdict == verdict; });
  if (std::ranges::find(counted_, verdict) != counted_.end()) return false;
  if (counted_.size() == kCountedMax) counted_.erase(counted_.begin());
  counted_.push_back(verdict);
  return true;
}

void VerdictTrust::doubt(Rank by, const Verdict& verdict, TimeNs now) {
  if (doubtful_.size() < kDoubtfulMax) doubtful_.push_back({by, verdict, now + kDoubt});
}

std::vector<VerdictTrust::Said> VerdictTrust::settle(bool localises, TimeNs now) {
  std::vector<Said> good;
  std::erase_if(doubtful_, [&](const Said& said) {
    const bool mine = said.by == engine_.self();
    if (mine ? localises : counts(said.by, said.verdict, now)) {
      good.push_back(said);
      return true;
    }
    if (now < said.until) return false;
    R2CCL_LOG(info, "a verdict of rank %d does not count: it does not localise", said.by.value());
    return true;
  });
  return good;
}

}  // namespace r2ccl
