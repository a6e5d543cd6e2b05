// Losses that are evidence against no NIC, because of the report of one end.
#include <algorithm>

#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/diagnosis/fault_localiser_facts.h"

namespace r2ccl {

// Excuses the pair. One end closed the connection because of bytes on it; the other sees that it
// was closed. Neither is evidence against a NIC. The same report may come again later.
void FaultLocaliser::excuse(const Observation& o, TimeNs now) {
  count_tampering(o, now);
  if (excused(o, now)) return;
  Excuse excuse{pair_of(o.near, o.far), now, {id_of(o)}};
  std::erase_if(open_, [&](const Open& open) {
    const bool covered = !open.probed && subject(open.seen) == nullptr &&
                         is_of(open.seen, o.near, o.far) &&
                         now - open.at <= std::max(since_up_ns(o), kSameLoss);
    if (covered) excuse.reports.push_back(id_of(open.seen));
    return covered;
  });
  excuses_.push_back(std::move(excuse));
}

// Returns whether an excuse covers the observation. A path that has come back since is lost for
// another reason.
bool FaultLocaliser::excused(const Observation& o, TimeNs now) {
  if (subject(o) != nullptr) return false;
  for (Excuse& excuse : excuses_) {
    if (excuse.pair != pair_of(o.near, o.far)) continue;
    if (std::ranges::find(excuse.reports, id_of(o)) != excuse.reports.end()) return true;
    if (is_of_bytes(finest(o)) || now - excuse.at > std::max(since_up_ns(o), kSameLoss)) {
      continue;
    }
    excuse.reports.push_back(id_of(o));
    return true;
  }
  return false;
}

// Losses that waited for the verdict on this one get a question.
void FaultLocaliser::withdraw(const Observation& o, TimeNs now) {
  const auto same = [&](const Open& open) {
    return !open.probed && id_of(open.seen) == id_of(o) && is_of(open.seen, o.near, o.far);
  };
  if (std::erase_if(open_, same) > 0) ask_again(now);
}

}  // namespace r2ccl
