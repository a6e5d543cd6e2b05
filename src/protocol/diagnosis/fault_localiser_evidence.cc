// The evidence about a loss: the way in which the pair was lost, the pairs that were lost alike,
// and the NICs that work.
#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"
#include "protocol/diagnosis/fault_localiser.h"

namespace r2ccl {

// A fault may have thousands of losses.
void FaultLocaliser::index() {
  index_ = {};
  for (const Loss& loss : losses_) {
    if (const NicName* nic = subject(loss.seen)) index_.told.insert(*nic);
    if (finest(loss.seen) != DownCause::connection_lost) {
      index_.given_up.insert(pair_of(loss.seen));
    }
  }
}

// Returns the newest probe of the pair, if it was asked for after this loss.
const FaultLocaliser::Probe* FaultLocaliser::probe_of(const Loss& loss) const {
  const auto found = probes_.find(pair_of(loss.seen));
  return found != probes_.end() && found->second.asked_at >= loss.at ? &found->second : nullptr;
}

// Returns whether the pair's two ends reach each other: the fault does not stop a connect. Where no
// probe has tried the pair since it was lost, the observer's word counts: `stalled` says that the
// other kernel answered.
bool FaultLocaliser::answers(const Loss& loss) const {
  const auto found = probes_.find(pair_of(loss.seen));
  if (found != probes_.end() && found->second.reached && found->second.at >= loss.at) return true;
  const bool said = finest(loss.seen) == DownCause::stalled;
  return said && (mutated(Mutant::stalled_answers) || probe_of(loss) == nullptr);
}

FaultLocaliser::Evidence FaultLocaliser::evidence(const Loss& loss) const {
  if (!answers(loss)) return Evidence::silent;
  // When one end gives a path up, the other end sees only that its connections closed.
  const bool given_up = index_.given_up.contains(pair_of(loss.seen));
  return given_up ? Evidence::stalled : Evidence::reset;
}

// Returns whether a verdict, or its own host, has named the NIC. It has not worked since, and is no
// evidence against others.
bool FaultLocaliser::is_known(const NicName& nic) const {
  return index_.told.contains(nic) ||
         std::ranges::any_of(standing_, [&](const Standing& s) { return !s.over && s.names(nic); });
}

// Returns the NICs that reached another one after that time.
std::set<NicName> FaultLocaliser::innocent(TimeNs since) const {
  std::set<NicName> innocent;
  for (const auto& [pair, probe] : probes_) {
    if (probe.reached && probe.at >= since) innocent.insert({pair.first, pair.second});
  }
  return innocent;
}

// Returns the pairs that were lost in the same way, without those of NICs that are known to be at
// fault. Probes count only if they tried the pair of the case: others may be those of a localising
// rank whose own host is cut off.
std::vector<NicPair> FaultLocaliser::lost_alike(const Case& c) const {
  std::set<NicPair> lost;
  for (const Loss& loss : losses_) {
    if (subject(loss.seen) == nullptr && evidence(loss) == c.how) lost.insert(pair_of(loss.seen));
  }
  for (const Standing& s : standing_) {
    if (!s.over && !s.between && s.how == c.how) lost.insert(s.pairs.begin(), s.pairs.end());
  }
  if (c.how == Evidence::silent && c.tried) {
    for (const auto& [pair, probe] : probes_) {
      if (!probe.reached) lost.insert(pair);
    }
  }
  const auto& innocent = c.suspects.innocent;
  std::erase_if(lost, [&](const NicPair& pair) {
    const bool between = innocent.contains(pair.first) && innocent.contains(pair.second);
    const bool named = std::ranges::any_of(standing_, [&](const Standing& s) {
      return s.between && !s.over && s.pairs.contains(pair);
    });
    return between || named || is_known(pair.first) || is_known(pair.second);
  });
  return {lost.begin(), lost.end()};
}

// Returns the hosts that lost each of their NICs, where none of these works. A host with one NIC
// counts as that NIC.
std::set<uint32_t> FaultLocaliser::dark_hosts(const Case& c) const {
  std::map<uint32_t, std::set<NicName>> lost;
  for (const NicPair& pair : c.pairs) {
    for (const NicName& nic : {pair.first, pair.second}) lost[nic.host].insert(nic);
  }
  std::set<uint32_t> dark;
  for (const auto& [host, nics] : lost) {
    const bool all = nics.size() >= 2 && nics.size() == nics_of_hosts_[host];
    const auto works = [&](const NicName& nic) { return c.suspects.innocent.contains(nic); };
    const auto answers_one = [&, at = host](const Loss& loss) {
      return (loss.seen.near.host == at || loss.seen.far.host == at) && answers(loss);
    };
    if (!all || std::ranges::any_of(nics, works)) continue;
    if (std::ranges::none_of(losses_, answers_one)) dark.insert(host);
  }
  return dark;
}

// The answers must be later than the question about this loss: an older one proves nothing, because
// its host may be cut off since.
FaultLocaliser::Case FaultLocaliser::case_of(const Loss& seed) const {
  Case c;
  const Probe* probe = probe_of(seed);
  const auto question = questions_.find(seed.question);
  c.tried = probe != nullptr;
  c.heard = question != questions_.end() && question->second.awaited.size() <= 1;
  c.how = evidence(seed);
  // Where connects pass, they prove nothing.
  if (c.how == Evidence::silent) {
    const bool fresh = c.tried && !mutated(Mutant::host_unwitnessed);
    c.suspects.innocent = innocent(fresh ? probe->asked_at : seed.at);
  }
  c.pairs = lost_alike(c);
  if (c.how == Evidence::silent) c.suspects.dark = dark_hosts(c);
  return c;
}

// Leaves the pairs that have one explanation with the pair.
void FaultLocaliser::narrow(Case& c, const NicPair& pair) {
  std::erase(c.pairs, pair);
  c.pairs.insert(c.pairs.begin(), pair);
  c.pairs = take_component(c.pairs, c.suspects.dark);
}

// Returns whether one NIC of every host lost the others. With two hosts the evidence for a rail is
// the same as for a NIC.
FaultLocaliser::RailEvidence FaultLocaliser::rail_evidence(const Case& c) const {
  std::map<NicName, size_t> lost;  // by NIC: how many others
  std::set<uint32_t> hosts;
  for (const auto& [one, other] : c.pairs) {
    ++lost[one];
    ++lost[other];
    hosts.insert({one.host, other.host});
  }
  const size_t all = nics_of_hosts_.size();
  if (hosts.size() < 3 || lost.size() != hosts.size()) return RailEvidence::none;
  const auto explains_all = [&](const auto& nic) { return nic.second == c.pairs.size(); };
  if (std::ranges::any_of(lost, explains_all)) return RailEvidence::none;
  if (c.tried) {
    // Some pairs may be unknown: where a round trip takes long, a missing answer proves nothing.
    const bool all_lost = std::ranges::all_of(lost, [&](const auto& nic) {
      return nic.second >= 2 && !c.suspects.innocent.contains(nic.first);
    });
    return all_lost && c.how == Evidence::silent ? RailEvidence::full : RailEvidence::none;
  }
  if (hosts.size() != all) return RailEvidence::none;
  return c.pairs.size() == all * (all - 1) / 2 ? RailEvidence::full : RailEvidence::partial;
}

// Returns the NICs of the rail, if the kernels of all hosts say that their NIC there has no
// carrier.
std::set<NicName> FaultLocaliser::without_carrier(const Loss& seed) const {
  std::set<NicName> told;
  std::set<NicPair> lost;
  for (const Loss& loss : losses_) {
    lost.insert(pair_of(loss.seen));
    const NicName* nic = subject(loss.seen);
    if (nic != nullptr && finest(loss.seen) == DownCause::carrier_lost) told.insert(*nic);
  }
  Case c;
  c.pairs.assign(lost.begin(), lost.end());
  narrow(c, pair_of(seed.seen));
  std::set<NicName> nics;
  std::set<uint32_t> hosts;
  for (const auto& [one, other] : c.pairs) {
    nics.insert({one, other});
    hosts.insert({one.host, other.host});
  }
  const size_t all = nics_of_hosts_.size();
  const bool rail = all >= 3 && hosts.size() == all && nics.size() == all;
  return rail && nics == told ? nics : std::set<NicName>();
}

}  // namespace r2ccl
