// When a whole host is named: it lost all its NICs, and somebody who works is witness to that.
#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/mutant.h"
#include "protocol/diagnosis/blame.h"
#include "protocol/diagnosis/blame_facts.h"

namespace r2ccl {

// Whether the hosts that were asked for this loss have answered, all but one: each pair has two
// ends.
bool Judge::heard(const Open& open) const {
  const auto found = questions_.find(open.question);
  return open.covered && found != questions_.end() && found->second.awaited.size() <= 1;
}

// Each of its NICs is part of this fault, and none reaches anybody. A host with one NIC is that
// NIC. Where no probe tried the pair of `seed`, only lost paths count: the other probes may be
// those of a host that is cut off itself, or of an older question.
bool Judge::lost_all(uint32_t host, const Open& seed) const {
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

// A NIC that lost the host reaches another one. The answer that says so came after the question
// for this loss: an older one says nothing, because the NIC's host may be cut off since.
bool Judge::missed_by_others(uint32_t host, const Open& seed) const {
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

// Whether the evidence tells which of the two hosts lost all. With third hosts, a NIC that lost the
// host must be seen to reach others. The lost paths alone decide where the hosts have answered and
// could not try. Without their answers the judge's own host may be the one that is cut off.
bool Judge::host_is_known(const Open& seed, bool near_lost, bool far_lost) const {
  if (nics_of_hosts_.size() == 2) return true;
  if (near_lost == far_lost) return false;
  const uint32_t host = near_lost ? seed.seen.near.host : seed.seen.far.host;
  if (tried(seed)) return missed_by_others(host, seed);
  return heard(seed) || mutated(Mutant::host_unwitnessed);
}

// The hosts that could bear witness have not answered yet.
bool Judge::waits_for_witness(const Open& open, TimeNs now) const {
  if (nics_of_hosts_.size() == 2 || now >= open.at + kEcho) return false;
  if (subject(open.seen) != nullptr || tried(open) || heard(open)) return false;
  if (mutated(Mutant::host_unwitnessed)) return false;
  return lost_all(open.seen.near.host, open) != lost_all(open.seen.far.host, open);
}

// All NICs of one end's host, or of both: then nobody can tell which.
Verdict Judge::judge_hosts(const Open& seed, bool near_lost, bool far_lost, TimeNs now) {
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
  verdict.culprit = {host, ""};
  if (both) verdict.other = {other, ""};
  for (const NicName& nic : nics) remember(nic, true, now);
  return verdict;
}

}  // namespace r2ccl
