#include "runtime/diagnosis/path_excuses.h"

#include <algorithm>

#include "base/mutant.h"
#include "runtime/diagnosis/nic_names.h"
#include "runtime/link/notice.h"

namespace r2ccl {

void PathExcuses::tell(const Observation& own, PathId path) const {
  if (!is_of_bytes(own.cause) || mutated(Mutant::bytes_untold)) return;
  engine_.link(own.peer)->send_notice(make_notice(NoticeKind::excuse, path.value(), encode(own)));
}

void PathExcuses::hear(Rank peer, std::span<const std::byte> bytes) {
  const auto told = decode_observation(peer, bytes);
  if (!told.ok()) return;
  const Observation& o = told.value();
  const JobMap& job = engine_.job();
  if (o.peer != engine_.self() || !is_of_bytes(o.cause)) return;
  if (!is_nic_of(job, peer, o.near) || !is_nic_of(job, o.peer, o.far)) return;
  std::erase_if(heard_, [&](const Observation& old) {
    return old.observer == peer && old.near == o.near && old.far == o.far;
  });
  heard_.push_back(o);
}

// The word of a host on its own NIC is evidence beside the bytes, so it stays.
bool PathExcuses::apply(Observation& own) const {
  if (is_of_bytes(finest(own)) || subject(own) != nullptr) return false;
  const auto excuse = std::ranges::find_if(
      heard_, [&](const Observation& theirs) { return is_of_same_loss(theirs, own); });
  if (excuse == heard_.end()) return false;
  own.cause = DownCause::peer_notice;
  own.peer_cause = excuse->cause;
  return true;
}

}  // namespace r2ccl
