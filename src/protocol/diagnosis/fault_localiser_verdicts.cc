// The verdict on a loss whose time is over.
#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/mutant.h"
#include "protocol/diagnosis/fault_localiser.h"

namespace r2ccl {
namespace {

// More components that fail at the same time leave too little evidence against each.
constexpr size_t kSetMax = 3;

}  // namespace

// Removes the losses that `explained` accepts, and adds them up.
Verdict FaultLocaliser::take(const std::function<bool(const Observation&)>& explained) {
  Verdict verdict;
  std::optional<Observation> decisive;
  const auto decides = [&](const Observation& o) {
    return !decisive || weight(o) > weight(*decisive) ||
           (weight(o) == weight(*decisive) && o.wall < decisive->wall);
  };
  for (const Loss& loss : losses_) {
    const Observation& o = loss.seen;
    if (!explained(o)) continue;
    verdict.retransmitted_bytes += o.retransmitted_bytes;
    verdict.stall_us = std::max(verdict.stall_us, o.stall_us);
    verdict.wall = decisive ? std::min(verdict.wall, o.wall) : o.wall;
    if (decides(o)) decisive = o;
  }
  R2CCL_CHECK(decisive.has_value());
  verdict.rank = decisive->observer;
  verdict.kind = finest(*decisive);
  verdict.detected_us = decisive->detected_us;
  std::erase_if(losses_, [&](const Loss& loss) { return explained(loss.seen); });
  return verdict;
}

// Names these NICs, or the host of the one without a name. A verdict on a pair that they explain
// was of the same fault.
void FaultLocaliser::name(Scope scope, const std::set<NicName>& nics, TimeNs now) {
  R2CCL_CHECK(!nics.empty());
  Standing standing;
  standing.named = nics;
  Verdict verdict = take([&](const Observation& o) {
    if (const NicName* nic = subject(o)) return standing.names(*nic);
    return standing.names(o.near) || standing.names(o.far);
  });
  verdict.scope = scope;
  verdict.faulty = *nics.begin();
  const auto coarser = std::ranges::find_if(standing_, [&](const Standing& s) {
    const auto of_these = [&](const NicPair& pair) {
      return standing.names(pair.first) || standing.names(pair.second);
    };
    return !s.between && !s.over && std::ranges::any_of(s.pairs, of_these);
  });
  if (coarser != standing_.end()) {
    verdict.wall = coarser->wall;
    standing_.erase(coarser);
  }
  make(std::move(verdict), std::move(standing), now);
}

// Gives both ends. A loss that shares a NIC with a recent verdict of this kind, came later, and was
// there before it, adds no verdict. It is evidence still: with a third loss one end may be named.
void FaultLocaliser::name_pair(const Loss& seed, const Case& c, TimeNs now) {
  const NicPair pair = pair_of(seed.seen);
  const auto earlier = std::ranges::find_if(standing_, [&](const Standing& s) {
    return !s.between && seed.at > s.at && seed.up_at <= s.at && s.touches(pair);
  });
  const auto lost = [&](const NicName& nic) {
    return std::ranges::count_if(c.pairs, [&](const NicPair& each) { return touches(each, nic); });
  };
  const bool far_is_worse = lost(seed.seen.far) > lost(seed.seen.near);
  const NicName& worse = far_is_worse ? seed.seen.far : seed.seen.near;
  std::set<NicPair> pairs;
  Verdict verdict = take([&](const Observation& o) {
    const bool alike = std::ranges::find(c.pairs, pair_of(o)) != c.pairs.end();
    if (subject(o) != nullptr || !alike || !touches(pair_of(o), worse)) return false;
    pairs.insert(pair_of(o));
    return true;
  });
  if (earlier != standing_.end()) {
    if (earlier->how == c.how) earlier->pairs.merge(pairs);
    return;
  }
  verdict.scope = Scope::pair;
  verdict.faulty = worse;
  verdict.other = opposite(pair, worse);
  Standing standing;
  standing.pairs = std::move(pairs);
  standing.how = c.how;
  make(std::move(verdict), std::move(standing), now);
}

// The network between two NICs is at fault, or a connection was reset.
void FaultLocaliser::name_between(const Loss& seed, Evidence how, TimeNs now) {
  const NicPair pair = pair_of(seed.seen);
  Verdict verdict = take([&](const Observation& o) { return pair_of(o) == pair; });
  verdict.scope = Scope::pair;
  verdict.faulty = seed.seen.near;
  verdict.other = seed.seen.far;
  Standing standing;
  standing.pairs = {pair};
  standing.between = true;
  standing.how = how;
  make(std::move(verdict), std::move(standing), now);
}

// Two hosts do not reach each other, and there is no third one.
void FaultLocaliser::name_hosts(const Loss& seed, TimeNs now) {
  Verdict verdict = take([](const Observation& o) { return subject(o) == nullptr; });
  verdict.scope = Scope::pair;
  verdict.faulty = {seed.seen.near.host, ""};
  verdict.other = {seed.seen.far.host, ""};
  Standing standing;
  standing.named = {verdict.faulty, verdict.other};
  make(std::move(verdict), std::move(standing), now);
}

void FaultLocaliser::make(Verdict verdict, Standing standing, TimeNs now) {
  standing.wall = verdict.wall;
  standing.at = now;
  standing_.push_back(std::move(standing));
  ready_.push_back(std::move(verdict));
}

// Returns whether two hosts or more have lost the component, and where probes tell it, one of these
// works. Else all of them may share a fault of their own.
bool FaultLocaliser::is_witnessed(const NicName& component, const std::set<NicName>& found,
                                  const Case& c) {
  const auto is_part = [](const NicName& nic, const NicName& of) {
    return of.nic.empty() ? nic.host == of.host : nic == of;
  };
  std::set<uint32_t> hosts;
  bool works = false;
  for (const auto& [one, other] : c.pairs) {
    if (!is_part(one, component) && !is_part(other, component)) continue;
    const NicName& witness = is_part(one, component) ? other : one;
    const auto explains = [&](const NicName& each) { return is_part(witness, each); };
    if (std::ranges::any_of(found, explains)) continue;
    hosts.insert(witness.host);
    works = works || c.suspects.innocent.contains(witness);
  }
  if (component.nic.empty() && mutated(Mutant::host_unwitnessed)) return true;
  return hosts.size() >= 2 && (works || !c.tried || c.how != Evidence::silent);
}

// Names the NIC that its own host knows to be down, or the rail if all hosts know it of theirs.
void FaultLocaliser::judge_word(const Loss& seed, const NicName& nic, TimeNs now) {
  const std::set<NicName> rail = without_carrier(seed);
  rail.contains(nic) ? name(Scope::rail, rail, now) : name(Scope::nic, {nic}, now);
}

void FaultLocaliser::wait_until(TimeNs time, const std::vector<NicPair>& pairs) {
  for (Loss& loss : losses_) {
    const bool waits = std::ranges::find(pairs, pair_of(loss.seen)) != pairs.end();
    if (waits && subject(loss.seen) == nullptr) loss.ripe_at = std::max(loss.ripe_at, time);
  }
}

// A NIC does not reset connections; their ends do, or the network between them.
void FaultLocaliser::judge(const Loss seed, TimeNs now) {
  const auto& [near, far] = std::tie(seed.seen.near, seed.seen.far);
  for (const NicName* nic : {subject(seed.seen), &near, &far}) {
    const bool told = nic != nullptr && index_.told.contains(*nic);
    if (told) return judge_word(seed, *nic, now);
  }
  Case c = case_of(seed);
  const NicPair pair = pair_of(seed.seen);
  const bool both_work = c.suspects.innocent.contains(near) && c.suspects.innocent.contains(far);
  if (both_work || c.how == Evidence::reset) return name_between(seed, c.how, now);
  const TimeNs heard_all_at = seed.at + kLateReportWindow;
  const size_t hosts = nics_of_hosts_.size();
  // The hosts that could bear witness have not answered yet.
  const bool unheard = hosts > 2 && !c.tried && !c.heard && !mutated(Mutant::host_unwitnessed);
  if (unheard && now >= heard_all_at) c.suspects.dark.clear();
  narrow(c, pair);
  const RailEvidence rail = rail_evidence(c);
  // The paths that carry nothing will distinguish a rail from NICs that failed together.
  if (rail == RailEvidence::partial && now < heard_all_at) return wait_until(heard_all_at, c.pairs);
  if (rail == RailEvidence::full) {
    std::set<NicName> nics;
    for (const NicPair& each : c.pairs) nics.insert({each.first, each.second});
    return name(Scope::rail, nics, now);
  }
  const std::set<NicName> found = in_every_smallest_set(c.pairs, c.suspects, kSetMax);
  for (const NicName& each : {NicName{near.host, ""}, NicName{far.host, ""}, near, far}) {
    if (!found.contains(each) || !is_witnessed(each, found, c)) continue;
    const bool is_host = each.nic.empty();
    if (is_host && unheard) return wait_until(heard_all_at, {pair});
    return name(is_host ? Scope::host : Scope::nic, {each}, now);
  }
  const auto dark = [&](const NicName& nic) { return c.suspects.dark.contains(nic.host); };
  if (hosts == 2 && (dark(near) || dark(far))) return name_hosts(seed, now);
  name_pair(seed, c, now);
}

}  // namespace r2ccl
