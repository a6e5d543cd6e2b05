// Decides when a verdict names a whole host: the host lost all its NICs, and a working NIC
// witnessed that.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/mutant.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/diagnosis/fault_localiser_facts.h"

namespace r2ccl {

// Returns whether all but one of the hosts that were asked about this loss have answered: each pair
// has two ends.
bool FaultLocaliser::heard(const Open& open) const {
  const auto found = questions_.find(open.question);
  return open.covered && found != questions_.end() && found->second.awaited.size() <= 1;
}

// Returns whether each of the host's NICs is part of this fault, and none reaches another. A host
// with one NIC counts as that NIC. Where no probe tried the pair of `seed`, only lost paths count:
// the other probes may come from a host that is cut off itself, or belong to an older question.
bool FaultLocaliser::lost_all(uint32_t host, const Open& seed) const {
  R2CCL_CHECK(host < nics_of_hosts_.size());
  const bool probes_count = tried(seed) || mutated(Mutant::host_unwitnessed);
  std::set<NicName> lost;
  for (const Open& open : open_) {
    const Observation& o = open.seen;
    if (o.near.host != host && o.far.host != host) continue;
    const NicName& nic = o.near.host == host ? o.near : o.far;
    const NicName& opposite = o.near.host == host ? o.far : o.near;
    if (subject(o) != nullptr || answers(open) || reported(nic)) return false;
    if (open.probed && !probes_count) continue;
    if (!reported(opposite) && !broken_nics_.contains(opposite)) lost.insert(nic);
  }
  return lost.size() >= 2 && lost.size() == nics_of_hosts_[host] &&
         std::ranges::none_of(lost,
                              [&](const NicName& nic) { return reaches_others(nic, {}, seed.at); });
}

// Returns whether a NIC that lost the host reaches another one. Its answer must be later than the
// question about this loss: an older one proves nothing, because the NIC's host may be cut off
// since.
bool FaultLocaliser::missed_by_others(uint32_t host, const Open& seed) const {
  const auto asked = questions_.find(seed.question);
  const bool fresh = asked != questions_.end() && !mutated(Mutant::host_unwitnessed);
  const TimeNs since = fresh ? std::max(seed.at, asked->second.at) : seed.at;
  return std::ranges::any_of(open_, [&](const Open& open) {
    const Observation& o = open.seen;
    if (o.near.host != host && o.far.host != host) return false;
    const auto& [own, opposite] =
        o.near.host == host ? std::tie(o.near, o.far) : std::tie(o.far, o.near);
    return reaches_others(opposite, own, since);
  });
}

// Returns whether the evidence tells which of the two hosts lost all. With third hosts, a NIC that
// lost the host must be seen to reach others. The lost paths alone decide where the hosts have
// answered and could not try. Without their answers, the localising rank's own host may be the one
// that is cut off.
bool FaultLocaliser::host_is_known(const Open& seed, bool near_lost, bool far_lost) const {
  if (nics_of_hosts_.size() == 2) return true;
  if (near_lost == far_lost) return false;
  const uint32_t host = near_lost ? seed.seen.near.host : seed.seen.far.host;
  if (tried(seed)) return missed_by_others(host, seed);
  return heard(seed) || mutated(Mutant::host_unwitnessed);
}

// Returns whether the hosts that could bear witness have not answered yet.
bool FaultLocaliser::waits_for_witness(const Open& open, TimeNs now) const {
  if (nics_of_hosts_.size() == 2 || now >= open.at + kLateReportWindow) return false;
  if (subject(open.seen) != nullptr || tried(open) || heard(open)) return false;
  if (mutated(Mutant::host_unwitnessed)) return false;
  return lost_all(open.seen.near.host, open) != lost_all(open.seen.far.host, open);
}

// Names all NICs of one end's host. If both hosts lost all, the verdict gives both.
Verdict FaultLocaliser::localise_hosts(const Open& seed, bool near_lost, bool far_lost,
                                       TimeNs now) {
  R2CCL_CHECK(near_lost || far_lost);
  const uint32_t host = near_lost ? seed.seen.near.host : seed.seen.far.host;
  const uint32_t other = near_lost ? seed.seen.far.host : seed.seen.near.host;
  std::set<NicName> nics;
  for (const Open& open : open_) {
    for (const NicName& nic : {open.seen.near, open.seen.far}) {
      if (nic.host == host) nics.insert(nic);
    }
  }
  Verdict verdict =
      take([&](const Observation& o) { return o.near.host == host || o.far.host == host; });
  const bool both = near_lost && far_lost;
  verdict.scope = both ? Scope::pair : Scope::host;
  verdict.faulty = {host, ""};
  if (both) verdict.other = {other, ""};
  for (const NicName& nic : nics) remember(nic, true, now);
  return verdict;
}

}  // namespace r2ccl
