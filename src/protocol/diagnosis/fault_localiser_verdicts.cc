// The verdict on a fault whose observations are complete.
#include <algorithm>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/diagnosis/fault_localiser_facts.h"

namespace r2ccl {

// Removes the observations that `explained` accepts from `open_` and adds them up.
Verdict FaultLocaliser::take(const std::function<bool(const Observation&)>& explained) {
  Verdict verdict;
  std::optional<Observation> decisive;
  const auto decides = [&](const Observation& o) {
    return !decisive || weight(o) > weight(*decisive) ||
           (weight(o) == weight(*decisive) && o.wall < decisive->wall);
  };
  for (const Open& open : open_) {
    const Observation& o = open.seen;
    if (open.probed || !explained(o)) continue;
    verdict.retransmitted_bytes += o.retransmitted_bytes;
    verdict.stall_us = std::max(verdict.stall_us, o.stall_us);
    verdict.wall = decisive ? std::min(verdict.wall, o.wall) : o.wall;
    if (decides(o)) decisive = o;
  }
  R2CCL_CHECK(decisive.has_value());
  verdict.rank = decisive->observer;
  verdict.kind = finest(*decisive);
  verdict.detected_us = decisive->detected_us;
  std::erase_if(open_, [&](const Open& open) { return explained(open.seen); });
  index();
  return verdict;
}

Verdict FaultLocaliser::localise_rail(const std::vector<Open*>& fault, TimeNs now) {
  std::set<NicName> nics;
  for (const Open* open : fault) nics.insert({open->seen.near, open->seen.far});
  R2CCL_CHECK(!nics.empty());
  Verdict verdict = take([&](const Observation& o) { return nics.contains(o.near); });
  verdict.scope = Scope::rail;
  verdict.faulty = *nics.begin();
  for (const NicName& nic : nics) remember(nic, true, now);
  return verdict;
}

// Returns the end of a broken pair that has more evidence against it.
NicName FaultLocaliser::worse_end(const Open& open) const {
  const Observation& pair = open.seen;
  // A host that saw its own NIC fail knows best, and next best a host that it told so.
  if (subject(pair) != nullptr) return *subject(pair);
  for (const NicName& nic : {pair.near, pair.far}) {
    if (reported(nic)) return nic;
  }
  // Otherwise the end that reaches no NIC, or failed towards more hosts, or failed towards others
  // before the other end did.
  const auto badness = [&](const NicName& nic, const NicName& opposite) {
    return std::tuple(!answers(open) && !reaches_others(nic, opposite, open.at),
                      hosts_opposite(nic, open).size(), -lost_elsewhere_at(nic, opposite));
  };
  return badness(pair.near, pair.far) < badness(pair.far, pair.near) ? pair.far : pair.near;
}

// Makes a verdict on a pair: both ends reach others, or each other.
Verdict FaultLocaliser::localise_pair(const Open& seed, TimeNs now) {
  const NicName near = seed.seen.near;
  const NicName far = seed.seen.far;
  const bool works = evidence(seed) == Evidence::reset;
  Verdict verdict = take([&](const Observation& o) { return is_of(o, near, far); });
  verdict.scope = Scope::pair;
  verdict.faulty = near;
  verdict.other = far;
  Recent recent;
  recent.nic = near;
  recent.other = far;
  recent.one_pair = true;
  recent.at = now;
  recent_.push_back(std::move(recent));
  if (!works) broken_pairs_.insert(pair_of(near, far));
  return verdict;
}

Verdict FaultLocaliser::localise_nic(const Open& seed, TimeNs now) {
  const NicName faulty = worse_end(seed);
  const NicName other = seed.seen.near == faulty ? seed.seen.far : seed.seen.near;
  // Some NICs that lost it must work, because otherwise all may share one fault of their own.
  const bool witnessed = std::ranges::any_of(open_, [&](const Open& open) {
    if (!touches(open.seen, faulty)) return false;
    const NicName& opposite = open.seen.near == faulty ? open.seen.far : open.seen.near;
    return reaches_others(opposite, faulty, seed.at);
  });
  // If probes say nothing, only losses count.
  const bool probed = tried(seed) && !answers(seed);
  const bool side_known =
      reported(faulty) || (probed ? hosts_opposite(faulty, seed).size() >= 2 && witnessed
                                  : witnesses_against(faulty, seed) >= 2);
  if (!side_known && !probed) note_undecided(faulty, seed, now);
  Verdict verdict = take([&](const Observation& o) {
    return touches(o, faulty) && (subject(o) == nullptr || is_about(o, faulty));
  });
  verdict.scope = side_known ? Scope::nic : Scope::pair;
  verdict.faulty = faulty;
  remember(faulty, side_known, now);
  if (side_known) return verdict;
  verdict.other = other;
  remember(other, false, now);
  broken_pairs_.insert(pair_of(faulty, other));
  return verdict;
}

Verdict FaultLocaliser::localise_one(const Open& seed, TimeNs now) {
  const Observation& o = seed.seen;
  if (subject(o) != nullptr || reported(o.near) || reported(o.far)) return localise_nic(seed, now);
  const bool near_lost = lost_all(o.near.host, seed);
  const bool far_lost = lost_all(o.far.host, seed);
  if ((near_lost || far_lost) && host_is_known(seed, near_lost, far_lost)) {
    return localise_hosts(seed, near_lost, far_lost, now);
  }
  // A NIC does not reset connections; their ends do, or the network between them.
  const bool between = evidence(seed) == Evidence::reset ||
                       (!answers(seed) && reaches_others(o.near, o.far, seed.at) &&
                        reaches_others(o.far, o.near, seed.at));
  return between ? localise_pair(seed, now) : localise_nic(seed, now);
}

}  // namespace r2ccl
