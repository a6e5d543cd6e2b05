#include "protocol/health/lost_nics.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"

namespace r2ccl {
namespace {

struct Candidate {
  size_t host;
  NicReach reach;
};

// Returns whether `a` reaches a smaller part of its hosts.
bool reaches_less(const Candidate& a, const Candidate& b) {
  return uint64_t{a.reach.reached} * b.reach.missed < uint64_t{b.reach.reached} * a.reach.missed;
}

// Returns the hosts whose NICs on the rail miss more hosts than they reach, fewest reached first.
std::vector<Candidate> candidates(const std::vector<HostReach>& hosts, size_t rail) {
  std::vector<Candidate> found;
  for (size_t host = 0; host < hosts.size(); ++host) {
    const std::optional<NicReach>& nic = hosts[host][rail];
    if (nic && !nic->whole()) found.push_back({host, *nic});
  }
  std::ranges::stable_sort(found, reaches_less);
  return found;
}

// Returns which hosts have no NIC on the rail that they can use, at this moment.
std::vector<bool> lost_on(const std::vector<HostReach>& hosts, size_t rail) {
  std::vector<bool> lost(hosts.size());
  for (size_t host = 0; host < hosts.size(); ++host) lost[host] = !hosts[host][rail];
  const std::vector<Candidate> all = candidates(hosts, rail);
  uint32_t before = 0;  // the lost NICs that reach less
  for (size_t i = 0; i < all.size();) {
    uint32_t alike = 0;
    size_t end = i;
    for (; end < all.size() && !reaches_less(all[i], all[end]); ++end) {
      const auto [reached, missed] = all[end].reach;
      const uint32_t excused = mutated(Mutant::view_reach_all) ? 0 : std::min(missed, before);
      if (missed - excused <= reached && reached > 0) continue;
      lost[all[end].host] = true;
      ++alike;
    }
    before += alike;
    i = end;
  }
  return lost;
}

}  // namespace

LostNics::LostNics(const std::vector<HostReach>& hosts)
    : rails_(hosts.empty() ? 0 : hosts.front().size()) {
  for (const HostReach& host : hosts) {
    for (const std::optional<NicReach>& nic : host) {
      nics_.emplace_back().lost = !nic || !nic->whole();
    }
  }
}

void LostNics::judge(const std::vector<HostReach>& hosts, TimeNs now) {
  for (size_t rail = 0; rail < rails_; ++rail) {
    const std::vector<bool> lost = lost_on(hosts, rail);
    for (size_t host = 0; host < hosts.size(); ++host) {
      const std::optional<NicReach>& nic = hosts[host][rail];
      settle(nics_[host * rails_ + rail], lost[host], nic && nic->reached > 0, now);
    }
  }
}

void LostNics::settle(Nic& nic, bool lost, bool doubtful, TimeNs now) {
  if (lost == nic.lost) {
    nic.due = kNever;
    return;
  }
  const TimeNs after = !lost ? return_after(nic) : doubtful ? kDoubtfulLossAfter : 0;
  nic.due = std::min(nic.due, now + after);
  if (now < nic.due) return;
  nic.due = kNever;
  nic.lost = lost;
  if (!lost || doubtful) return;
  nic.losses = nic.losses > 0 && now - nic.lost_at < kFlapMemory ? nic.losses + 1 : 1;
  nic.lost_at = now;
  if (mutated(Mutant::view_undamped)) nic.losses = 1;
}

TimeNs LostNics::return_after(const Nic& nic) {
  constexpr int kDoublingsMax = 20;
  const int doublings = std::clamp(nic.losses - 1, 0, kDoublingsMax);
  return std::min(kReturnAfter << doublings, kReturnAfterMax);
}

TimeNs LostNics::next_timeout() const {
  TimeNs next = kNever;
  for (const Nic& nic : nics_) next = std::min(next, nic.due);
  return next;
}

}  // namespace r2ccl
