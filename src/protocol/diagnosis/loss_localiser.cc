#include "protocol/diagnosis/loss_localiser.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

bool touches_any(const NicPair& pair, const std::set<NicName>& nics) {
  return nics.contains(pair.first) || nics.contains(pair.second);
}

}  // namespace

void LossLocaliser::on_report(const LossReport& report, TimeNs now) {
  std::map<Key, Seen> before;  // what this observer has told
  for (auto entry = seen_.begin(); entry != seen_.end();) {
    const auto next = std::next(entry);
    if (entry->first.observer == report.observer) before.insert(seen_.extract(entry));
    entry = next;
  }
  const size_t hosts = nics_of_hosts_.size();
  for (const LossSample& sample : report.samples) {
    const LossCount& count = sample.count;
    const bool known = sample.near.host < hosts && sample.far.host < hosts &&
                       sample.near.host != sample.far.host && !sample.near.nic.empty() &&
                       !sample.far.nic.empty();
    const bool sound = count.lost <= count.sent && count.lossy <= count.periods + 1 &&
                       count.lossy <= count.lost + 1 && count.lossy <= LossMeter::kPeriods &&
                       count.periods <= LossMeter::kPeriods;
    if (!known || !sound) continue;
    const Key key{report.observer, sample.near, sample.far};
    Seen& seen = seen_[key];
    seen = {count, now, 0};
    const auto last = before.find(key);
    if (last == before.end()) continue;
    seen.grew_at = count.lossy > last->second.count.lossy ? now : last->second.grew_at;
  }
  wall_[report.observer] = report.wall;
  changed_ = true;
}

void LossLocaliser::on_verdict(const Verdict& verdict, TimeNs now) {
  if (verdict.kind != DownCause::lossy) return;
  const NicName& other = verdict.scope == Scope::pair ? verdict.other : verdict.faulty;
  named_[pair_of(verdict.faulty, other)] = now;
}

// Returns the counts of both directions of a pair and all ranks of its hosts together.
std::map<LossLocaliser::Pair, LossCount> LossLocaliser::totals() const {
  std::map<Pair, LossCount> totals;
  for (const auto& [key, seen] : seen_) totals[pair_of(key.near, key.far)] += seen.count;
  return totals;
}

// Returns the pairs that are lossy. One full queue may drop packets of both directions: in each of
// them that is one period.
std::vector<LossLocaliser::Pair> LossLocaliser::lossy_pairs(
    const std::map<Pair, LossCount>& totals) const {
  std::map<Pair, uint32_t> worse;  // direction
  for (const auto& [key, seen] : seen_) {
    uint32_t& most = worse[pair_of(key.near, key.far)];
    most = std::max(most, seen.count.lossy);
  }
  std::vector<Pair> lossy;
  for (const auto& [pair, count] : totals) {
    const bool again = worse.at(pair) >= kPairPeriods || count.lossy > kPairPeriods ||
                       mutated(Mutant::loss_one_period);
    if (again && count.lossy > 0 && count.ppm() >= kPpmMin) lossy.push_back(pair);
  }
  return lossy;
}

// Returns whether it loses a far larger share than the pairs without a NIC of `touched`.
bool LossLocaliser::stands_out(const LossCount& count, const Cover& touched,
                               const std::map<Pair, LossCount>& totals) const {
  LossCount others;
  for (const auto& [pair, total] : totals) {
    if (!touches_any(pair, touched)) others += total;
  }
  return count.ppm() >= kMargin * others.ppm() || mutated(Mutant::loss_congestion);
}

// Returns whether some busy NIC of the host loses nothing. A loss at all busy NICs of a host is the
// fault of the host or its switch port, not of a NIC.
bool LossLocaliser::host_is_clean_elsewhere(const NicName& nic, const std::vector<Pair>& lossy,
                                            const std::map<Pair, LossCount>& totals) const {
  if (nics_of_hosts_[nic.host] < 2 || mutated(Mutant::loss_congestion)) return true;
  std::set<NicName> used;
  std::set<NicName> losing;
  for (const auto& [pair, count] : totals) {
    for (const NicName& end : {pair.first, pair.second}) {
      if (end.host == nic.host) used.insert(end);
    }
  }
  for (const Pair& pair : lossy) {
    for (const NicName& end : {pair.first, pair.second}) {
      if (end.host == nic.host) losing.insert(end);
    }
  }
  return used.size() < 2 || losing.size() < used.size();
}

void LossLocaliser::name(Scope scope, const NicName& nic, const NicName& other,
                         const LossCount& count, TimeNs now) {
  R2CCL_CHECK(scope == Scope::nic || scope == Scope::pair);
  const Pair key = pair_of(nic, scope == Scope::pair ? other : nic);
  const auto found = named_.find(key);
  const bool known = found != named_.end();
  named_[key] = now;
  if (known) return;
  Verdict verdict;
  verdict.scope = scope;
  verdict.faulty = nic;
  if (scope == Scope::pair) verdict.other = other;
  verdict.kind = DownCause::lossy;
  verdict.loss_ppm = count.ppm();
  TimeNs since = now;
  for (const auto& [pair, state] : lossy_) {
    const bool own = scope == Scope::pair ? pair == key : touches(pair, nic);
    if (own) since = std::min(since, state.lossy_since);
  }
  verdict.detected_us = static_cast<uint64_t>((now - since) / kMicrosecond);
  for (const auto& [seen_by, seen] : seen_) {
    if (seen.count.lossy == 0 || !touches(pair_of(seen_by.near, seen_by.far), nic)) continue;
    verdict.rank = seen_by.observer;
    verdict.wall = wall_[seen_by.observer] - (now - since);
    break;
  }
  ready_.push_back(verdict);
}

// Returns whether packets of the NIC got lost over a time of kNicPatience. Several paths see the
// same short outage, and their windows still hold it seconds later. So one of them must have seen
// a loss in more periods than fit into that time, or a new loss after it.
bool LossLocaliser::lasted(const NicName& nic, TimeNs since) const {
  return std::ranges::any_of(seen_, [&](const auto& entry) {
    const auto& [key, seen] = entry;
    if (key.near != nic && key.far != nic) return false;
    return seen.count.lossy * LossMeter::kPeriod > kNicPatience ||
           seen.grew_at >= since + kNicPatience;
  });
}

// Returns when the pair is known to have lost packets last. Its window holds a loss for seconds.
TimeNs LossLocaliser::lost_until(const Pair& pair) const {
  TimeNs last = lossy_.at(pair).lossy_since;
  for (const auto& [key, seen] : seen_) {
    if (pair_of(key.near, key.far) == pair) last = std::max(last, seen.grew_at);
  }
  return last;
}

// Returns whether at some time all of these lossy pairs lost packets. Pairs that go on losing will
// have had such a time soon.
bool LossLocaliser::lost_together(const std::vector<Pair>& pairs) const {
  if (mutated(Mutant::loss_any_time)) return true;
  TimeNs all_lossy_from = 0;
  TimeNs first_end = kNever;
  for (const Pair& pair : pairs) {
    all_lossy_from = std::max(all_lossy_from, lossy_.at(pair).lossy_since);
    first_end = std::min(first_end, lost_until(pair));
  }
  return all_lossy_from <= first_end;
}

void LossLocaliser::localise_component(const std::vector<Pair>& component,
                                       const std::vector<Pair>& lossy,
                                       const std::map<Pair, LossCount>& totals, TimeNs now) {
  const Cover faulty_nics = in_every_smallest_set(component, {}, kCoverMax);
  for (const NicName& nic : faulty_nics) {
    LossCount count;
    std::set<uint32_t> witnesses;
    std::vector<Pair> unexplained;
    for (const Pair& pair : component) {
      if (!touches(pair, nic)) continue;
      count += totals.at(pair);
      const NicName& other = pair.first == nic ? pair.second : pair.first;
      // If another NIC is named as well, now or before, it explains the loss of that pair.
      const bool explained = faulty_nics.contains(other) || named_.contains(pair_of(other, other));
      if (explained) continue;
      witnesses.insert(other.host);
      unexplained.push_back(pair);
    }
    TimeNs since = now;
    for (const Pair& pair : component) {
      if (touches(pair, nic)) since = std::min(since, lossy_.at(pair).lossy_since);
    }
    const bool long_enough = now - since >= kNicPatience && lasted(nic, since);
    if (!long_enough && !mutated(Mutant::loss_one_period)) continue;
    const bool seen_by_two = witnesses.size() >= 2 || mutated(Mutant::loss_any_cover);
    if (!seen_by_two || count.lossy < kNicPeriods || !lost_together(unexplained)) continue;
    if (!stands_out(count, faulty_nics, totals)) continue;
    if (host_is_clean_elsewhere(nic, lossy, totals)) name(Scope::nic, nic, {}, count, now);
  }
  // A chain or a ring of lossy pairs has no best explanation.
  if (component.size() != 1) return;
  const auto& [one, other] = component.front();
  const LossCount& count = totals.at(component.front());
  const bool alone = nics_of_hosts_.size() == 2;
  const TimeNs timeout = alone ? 0 : kPairPatience;
  const auto state = lossy_.find(component.front());
  if (state == lossy_.end() || now - state->second.lossy_since < timeout) return;
  if (count.lossy < kNamedPairPeriods || !stands_out(count, {one, other}, totals)) return;
  for (const NicName& end : {one, other}) {
    if (named_.contains(pair_of(end, end))) return;
    if (!host_is_clean_elsewhere(end, lossy, totals)) return;
  }
  name(Scope::pair, one, other, count, now);
}

void LossLocaliser::forget_old(TimeNs now) {
  std::erase_if(seen_, [&](const auto& entry) { return entry.second.at + kFresh <= now; });
  std::erase_if(named_, [&](const auto& entry) { return entry.second + kCleared <= now; });
  // A loss that goes on is the same fault, however rare it is.
  for (auto& [named, seen_at] : named_) {
    for (const auto& [key, seen] : seen_) {
      const Pair pair = pair_of(key.near, key.far);
      const bool of_it =
          pair == named || (named.first == named.second && touches(pair, named.first));
      if (of_it && seen.count.lost > 0) seen_at = std::max(seen_at, seen.at);
    }
  }
}

std::vector<Verdict> LossLocaliser::due(TimeNs now) {
  if (changed_ || now - localised_at_ >= kReportInterval) {
    changed_ = false;
    localised_at_ = now;
    forget_old(now);
    const std::map<Pair, LossCount> all = totals();
    const std::vector<Pair> lossy = lossy_pairs(all);
    std::erase_if(lossy_, [&](const auto& entry) {
      return std::ranges::find(lossy, entry.first) == lossy.end();
    });
    for (const Pair& pair : lossy) lossy_.try_emplace(pair, PairState{now});
    std::vector<Pair> left = lossy;
    while (!left.empty()) localise_component(take_component(left), lossy, all, now);
  }
  return std::exchange(ready_, {});
}

TimeNs LossLocaliser::next_timeout() const {
  if (!ready_.empty() || changed_) return 0;
  return seen_.empty() ? kNever : localised_at_ + kReportInterval;
}

LossExplains LossLocaliser::explains(const NicName& near, const NicName& far, TimeNs now) const {
  const auto named = [&](const NicName& a, const NicName& b) {
    const auto found = named_.find(pair_of(a, b));
    return found != named_.end() && now - found->second < kCleared;
  };
  if (named(near, near) || named(far, far) || named(near, far)) return LossExplains::yes;
  const Pair pair = pair_of(near, far);
  const bool loses = std::ranges::any_of(seen_, [&](const auto& entry) {
    const auto& [key, seen] = entry;
    return seen.count.lost > 0 && pair_of(key.near, key.far) == pair;
  });
  return loses ? LossExplains::perhaps : LossExplains::no;
}

void LossLocaliser::check_invariants() const {
  const size_t hosts = nics_of_hosts_.size();
  for (const auto& [key, seen] : seen_) {
    R2CCL_CHECK(key.near.host < hosts && key.far.host < hosts);
    R2CCL_CHECK(key.near.host != key.far.host);
    R2CCL_CHECK(seen.count.lost <= seen.count.sent && seen.count.lossy <= LossMeter::kPeriods);
  }
  for (const auto& [pair, state] : lossy_) R2CCL_CHECK(pair.first < pair.second);
}

}  // namespace r2ccl
