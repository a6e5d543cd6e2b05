// Paths that end because of the bytes on them: these losses accuse no NIC. Where they come again
// and again there is a verdict.
#include <algorithm>

#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/diagnosis/fault_localiser.h"

namespace r2ccl {
namespace {

NicPair hosts_of(const NicPair& pair) {
  return {{pair.first.host, ""}, {pair.second.host, ""}};
}

}  // namespace

// Excuses the loss. One end closed the connection because of bytes on it; the other sees that it
// was closed. Neither is evidence against a NIC. The same report may come again later.
void FaultLocaliser::excuse(const Observation& o, TimeNs now) {
  count_tampering(o, now);
  if (excused(o)) return;
  excuses_.push_back({o, now});
  std::erase_if(losses_, [&](const Loss& loss) { return excused(loss.seen); });
}

bool FaultLocaliser::excused(const Observation& o) const {
  return subject(o) == nullptr && std::ranges::any_of(excuses_, [&](const Excuse& excuse) {
           return is_of_same_loss(excuse.seen, o);
         });
}

void FaultLocaliser::forget_tampering(TimeNs now) {
  const auto old = [&](const auto& entry) { return entry.at + limits::kTamperedTime <= now; };
  std::erase_if(corruptions_, old);
  std::erase_if(tamperings_, old);
}

bool FaultLocaliser::is_of_named_tampering(const NicPair& pair, TimeNs now) {
  const auto found = std::ranges::find_if(tamperings_, [&](const Tampering& named) {
    return named.pair == pair || named.pair == hosts_of(pair);
  });
  if (found == tamperings_.end()) return false;
  found->at = now;
  return true;
}

// Only the end that found wrong bytes counts: the other end was told, or saw that its connection
// was closed.
void FaultLocaliser::count_tampering(const Observation& o, TimeNs now) {
  forget_tampering(now);
  const NicPair pair = pair_of(o);
  if (o.cause != DownCause::corrupted || is_of_named_tampering(pair, now)) return;
  const auto between = [&](const Corruption& each) {
    return hosts_of(each.pair) == hosts_of(pair);
  };
  const auto again = [&](const Corruption& each) {
    return each.pair == pair && each.seen.observer == o.observer && each.seen.peer == o.peer &&
           each.seen.wall == o.wall;
  };
  if (const auto found = std::ranges::find_if(corruptions_, again); found != corruptions_.end()) {
    found->seen.stall_us = std::max(found->seen.stall_us, o.stall_us);
    return;
  }
  corruptions_.push_back({pair, o, now});
  const size_t needed = mutated(Mutant::tampered_at_once) ? 1 : limits::kTamperedEnds;
  if (static_cast<size_t>(std::ranges::count_if(corruptions_, between)) < needed) return;
  Verdict verdict;
  verdict.scope = Scope::pair;
  verdict.faulty = o.near;
  verdict.other = o.far;
  verdict.rank = o.observer;
  verdict.kind = DownCause::tampered;
  verdict.detected_us = o.detected_us;
  verdict.wall = o.wall;
  for (const Corruption& each : corruptions_) {
    if (!between(each)) continue;
    verdict.wall = std::min(verdict.wall, each.seen.wall);
    verdict.stall_us = std::max(verdict.stall_us, each.seen.stall_us);
    verdict.retransmitted_bytes += each.seen.retransmitted_bytes;
    if (each.pair == pair) continue;
    verdict.faulty.nic.clear();
    verdict.other.nic.clear();
  }
  std::erase_if(corruptions_, between);
  tamperings_.push_back({pair_of(verdict.faulty, verdict.other), now});
  ready_.push_back(verdict);
}

}  // namespace r2ccl
