// Losses that are evidence against no NIC, because of the report of one end.
#include <algorithm>

#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/diagnosis/fault_localiser_facts.h"

namespace r2ccl {

// Excuses the loss. One end closed the connection because of bytes on it; the other sees that it
// was closed. Neither is evidence against a NIC. The same report may come again later.
void FaultLocaliser::excuse(const Observation& o, TimeNs now) {
  count_tampering(o, now);
  if (excused(o)) return;
  excuses_.push_back({o, now});
  std::erase_if(open_, [&](const Open& open) { return !open.probed && excused(open.seen); });
}

bool FaultLocaliser::excused(const Observation& o) const {
  return subject(o) == nullptr && std::ranges::any_of(excuses_, [&](const Excuse& excuse) {
           return is_of_same_loss(excuse.seen, o);
         });
}

// Losses that waited for the verdict on this one get a question.
void FaultLocaliser::withdraw(const Observation& o, TimeNs now) {
  const auto same = [&](const Open& open) {
    return !open.probed && id_of(open.seen) == id_of(o) && is_of(open.seen, o.near, o.far);
  };
  if (std::erase_if(open_, same) > 0) ask_again(now);
}

}  // namespace r2ccl
