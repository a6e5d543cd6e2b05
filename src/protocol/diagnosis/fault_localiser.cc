#include "protocol/diagnosis/fault_localiser.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"
#include "protocol/diagnosis/fault_localiser_facts.h"

namespace r2ccl {

// Returns whether a recent verdict explains the observation. A direct report is news, unless it is
// of a NIC that was named already. A path that came back after the verdict, and is lost again,
// shows another fault.
bool FaultLocaliser::absorbed(const Observation& o, TimeNs now) const {
  return std::ranges::any_of(recent_, [&](const Recent& recent) {
    if (now >= recent.until() || now - recent.at > since_up_ns(o)) return false;
    if (recent.one_pair) return subject(o) == nullptr && is_of(o, recent.nic, recent.other);
    return subject(o) != nullptr ? recent.named && is_about(o, recent.nic) : touches(o, recent.nic);
  });
}

bool FaultLocaliser::update(const Observation& o) {
  const auto same = [&](const Open& open) {
    const Observation& seen = open.seen;
    return !open.probed && seen.observer == o.observer && seen.peer == o.peer &&
           seen.near == o.near && seen.far == o.far && seen.wall == o.wall;
  };
  const auto found = std::ranges::find_if(open_, same);
  if (found == open_.end()) return false;
  found->seen.retransmitted_bytes =
      std::max(found->seen.retransmitted_bytes, o.retransmitted_bytes);
  found->seen.stall_us = std::max(found->seen.stall_us, o.stall_us);
  return true;
}

// Drops the earlier reports of the ended peer's connections: they were not the NICs' fault. Reports
// the end once, whichever rank observes it.
void FaultLocaliser::end_peer(const Observation& o) {
  std::erase_if(open_, [&](const Open& open) {
    return open.seen.observer == o.peer || open.seen.peer == o.peer;
  });
  if (!ended_.insert(o.peer).second) return;
  Verdict verdict;
  verdict.scope = o.cause == DownCause::connection_lost ? Scope::process : Scope::host;
  verdict.faulty = o.far;
  verdict.rank = o.observer;
  verdict.kind = o.cause;
  verdict.wall = o.wall;
  verdict.process = o.peer;
  ready_.push_back(verdict);
}

void FaultLocaliser::observe(const Observation& o, TimeNs now) {
  const size_t hosts = nics_of_hosts_.size();
  if (o.near.host >= hosts || o.far.host >= hosts) return;
  if (o.near.nic.empty()) {
    end_peer(o);
    return ask_again(now);
  }
  if (ended_.contains(o.observer) || ended_.contains(o.peer)) return;
  if (o.cause == DownCause::none) return withdraw(o, now);
  if (is_of_bytes(finest(o))) return excuse(o, now);
  if (excused(o) || update(o) || absorbed(o, now)) return;
  // The path had come back since.
  for (const NicName& nic : {o.near, o.far}) broken_nics_.erase(nic);
  broken_pairs_.erase(pair_of(o.near, o.far));
  undecided_.erase(pair_of(o.near, o.far));
  const bool stalled = finest(o) == DownCause::stalled;
  const TimeNs timeout = subject(o) != nullptr ? kSettleTime
                         : stalled             ? kProbeTimeoutStalled
                                               : kProbeTimeout;
  open_.push_back({o, now, now + timeout});
}

// Drops the observations that the verdict explains. A host without networks reaches its own verdict
// about itself. Its peers may not notice before it is back and resets the connections that they
// still have open: that is the same fault.
void FaultLocaliser::on_verdict(const Verdict& verdict, TimeNs now) {
  if (verdict.kind == DownCause::tampered) {
    const Pair pair = pair_of(verdict.faulty, verdict.other);
    if (!is_of_named_tampering(pair, now)) tamperings_.push_back({pair, now});
  }
  if (verdict.scope != Scope::nic) return;
  note_recent(verdict.faulty, true, now);
  std::erase_if(open_, [&](const Open& open) { return absorbed(open.seen, now); });
  ask_again(now);
}

TimeNs FaultLocaliser::next_timeout() const {
  TimeNs next = ready_.empty() ? kNever : 0;
  for (const Open& open : open_) {
    if (open.probed) continue;
    next = std::min(next, open.ripe_at);
    const bool asks = open.question == 0 && subject(open.seen) == nullptr;
    if (asks) next = std::min(next, open.at + kCoalesceTime);
  }
  return next;
}

bool FaultLocaliser::known_broken(const NicName& a, const NicName& b) const {
  return broken_nics_.contains(a) || broken_nics_.contains(b) ||
         broken_pairs_.contains(pair_of(a, b));
}

void FaultLocaliser::take_answer(const Reach& reach, const ProbeAnswer& answer, TimeNs now) {
  const Pair pair = pair_of(reach.near, reach.far);
  const auto of_pair = [&](const Open& open) {
    return open.probed && is_of(open.seen, reach.near, reach.far);
  };
  if (reach.reached) {
    reached_[pair] = {answer.number, now};
    for (const NicName& nic : {reach.near, reach.far}) broken_nics_.erase(nic);
    broken_pairs_.erase(pair);
    std::erase_if(open_, of_pair);
    return;
  }
  // One end's answer that the pair works is enough: the other end may have had no time.
  const auto found = reached_.find(pair);
  if (found != reached_.end() && found->second.question >= answer.number) return;
  if (found != reached_.end()) reached_.erase(found);
  if (known_broken(reach.near, reach.far) || std::ranges::any_of(open_, of_pair)) return;
  Open open;
  open.seen.near = reach.near;
  open.seen.far = reach.far;
  open.seen.cause = DownCause::silent;
  open.at = now;
  open.ripe_at = kNever;
  open.question = answer.number;
  open.probed = true;
  open.covered = true;
  open_.push_back(std::move(open));
}

// Returns whether the pair's two ends reach each other: the fault does not stop a connect. Where no
// probe has tried the pair since it was lost, the observer's word counts: `stalled` says that the
// other kernel answered.
bool FaultLocaliser::answers(const Open& open) const {
  const auto found = reached_.find(pair_of(open.seen.near, open.seen.far));
  if (found != reached_.end() && found->second.at >= open.at) return true;
  const bool said = finest(open.seen) == DownCause::stalled;
  return said && (mutated(Mutant::stalled_answers) || !tried(open));
}

void FaultLocaliser::on_answer(const ProbeAnswer& answer, TimeNs now) {
  const auto found = questions_.find(answer.number);
  if (found == questions_.end()) return;
  const auto awaited = found->second.awaited.find(answer.host);
  if (awaited == found->second.awaited.end()) return;
  if (--awaited->second == 0) found->second.awaited.erase(awaited);
  for (const Reach& reach : answer.tried) {
    const bool asked = reach.near.host == answer.host && reach.far.host != answer.host &&
                       found->second.hosts.contains(reach.far.host);
    if (!asked) continue;
    found->second.tried.insert(pair_of(reach.near, reach.far));
    take_answer(reach, answer, now);
  }
  // Each pair has two ends, so one host's answer may be missing.
  if (found->second.awaited.size() > 1) return;
  for (Open& open : open_) {
    if (open.question != answer.number || open.probed || subject(open.seen) != nullptr) continue;
    // Where the hosts could not try the pair, losses elsewhere are the evidence, and idle paths are
    // slow to notice.
    const TimeNs timeout = !tried(open)    ? kLateReportWindow
                           : answers(open) ? kProbeTimeoutStalled
                                           : kSettleTime;
    const TimeNs known_at = open.at + timeout;
    open.ripe_at = std::max(known_at, now);
  }
}

// Returns whether one NIC of every host lost all the others. With two hosts the evidence for a rail
// is the same as for a NIC.
FaultLocaliser::RailEvidence FaultLocaliser::rail_evidence(const std::vector<Open*>& fault) const {
  std::set<NicName> nics;
  std::set<NicName> without_carrier;
  std::set<uint32_t> hosts;
  std::set<std::pair<NicName, NicName>> pairs;
  for (const Open* open : fault) {
    const Observation& o = open->seen;
    nics.insert({o.near, o.far});
    hosts.insert({o.near.host, o.far.host});
    pairs.insert(std::minmax(o.near, o.far));
    if (subject(o) == nullptr) continue;
    if (finest(o) != DownCause::carrier_lost) return RailEvidence::none;
    without_carrier.insert(*subject(o));
  }
  const size_t all = nics_of_hosts_.size();
  if (all < 3) return RailEvidence::none;
  const bool one_a_host = nics.size() == hosts.size();
  if (tried(*fault.front()) && without_carrier.empty()) {
    const bool some_work = std::ranges::any_of(
        nics, [&](const NicName& nic) { return reaches_others(nic, {}, fault.front()->at); });
    // Some pairs may be unknown: where a round trip takes long, a missing answer proves nothing.
    const bool none_alone = std::ranges::all_of(nics, [&](const NicName& nic) {
      const auto of_nic = [&](const auto& pair) { return pair.first == nic || pair.second == nic; };
      const auto lost = std::ranges::count_if(pairs, of_nic);
      return lost >= 2 && static_cast<size_t>(lost) < pairs.size();
    });
    const bool all_lost = one_a_host && hosts.size() >= 3 && !some_work && none_alone;
    return all_lost ? RailEvidence::full : RailEvidence::none;
  }
  if (hosts.size() != all || !one_a_host) return RailEvidence::none;
  if (!without_carrier.empty()) {
    return without_carrier == nics ? RailEvidence::full : RailEvidence::none;
  }
  if (pairs.size() == all * (all - 1) / 2) return RailEvidence::full;
  const bool one_explains_all = std::ranges::any_of(nics, [&](const NicName& nic) {
    return std::ranges::all_of(fault, [&](const Open* o) { return touches(o->seen, nic); });
  });
  return one_explains_all ? RailEvidence::none : RailEvidence::partial;
}

bool FaultLocaliser::tried(const Open& open) const {
  const auto found = questions_.find(open.question);
  return open.covered && found != questions_.end() &&
         found->second.tried.contains(pair_of(open.seen.near, open.seen.far));
}

void FaultLocaliser::index() {
  index_ = {};
  for (size_t i = 0; i < open_.size(); ++i) {
    const Observation& o = open_[i].seen;
    if (subject(o) != nullptr) index_.reported.insert(*subject(o));
    if (finest(o) != DownCause::connection_lost) index_.given_up.insert(pair_of(o.near, o.far));
    index_.of_nic[o.near].push_back(i);
    if (o.far != o.near) index_.of_nic[o.far].push_back(i);
  }
}

// Returns whether the NIC was reached, or reached another one than `opposite`, after the pair
// broke.
bool FaultLocaliser::reaches_others(const NicName& nic, const NicName& opposite,
                                    TimeNs since) const {
  return std::ranges::any_of(reached_, [&](const auto& entry) {
    const auto& [pair, reached] = entry;
    if (reached.at < since || (pair.first != nic && pair.second != nic)) return false;
    return pair.first != opposite && pair.second != opposite;
  });
}

bool FaultLocaliser::reported(const NicName& nic) const {
  return index_.reported.contains(nic);
}

FaultLocaliser::Evidence FaultLocaliser::evidence(const Open& open) const {
  if (!answers(open)) return Evidence::silent;
  // When one end gives a path up, the other end sees only that its connections closed.
  const bool given_up = index_.given_up.contains(pair_of(open.seen.near, open.seen.far));
  return given_up ? Evidence::stalled : Evidence::reset;
}

// Returns the hosts towards which the NIC was lost with the same evidence as `like`: each kind of
// evidence has a cause of its own.
std::set<uint32_t> FaultLocaliser::hosts_opposite(const NicName& nic, const Open& like) const {
  std::set<uint32_t> hosts;
  const Evidence how = evidence(like);
  const auto count = [&](const NicName& a, const NicName& b) {
    if (a != nic && b != nic) return;
    const NicName& opposite = a == nic ? b : a;
    // A NIC that is broken itself is no witness.
    if (!reported(opposite) && !broken_nics_.contains(opposite)) hosts.insert(opposite.host);
  };
  if (const auto found = index_.of_nic.find(nic); found != index_.of_nic.end()) {
    for (const size_t i : found->second) {
      if (evidence(open_[i]) == how) count(open_[i].seen.near, open_[i].seen.far);
    }
  }
  for (const auto& [pair, undecided] : undecided_) {
    if (undecided.how == how) count(pair.first, pair.second);
  }
  return hosts;
}

// Returns how many of these hosts lost the NIC by no fault of their own. A NIC that as many others
// lost may just as well be the cause of their broken pair.
size_t FaultLocaliser::witnesses_against(const NicName& nic, const Open& like) const {
  const size_t against = hosts_opposite(nic, like).size();
  std::set<uint32_t> witnesses;
  for (const Open& open : open_) {
    if (!touches(open.seen, nic) || evidence(open) != evidence(like)) continue;
    const NicName& opposite = open.seen.near == nic ? open.seen.far : open.seen.near;
    if (reported(opposite) || broken_nics_.contains(opposite)) continue;
    if (hosts_opposite(opposite, like).size() < against) witnesses.insert(opposite.host);
  }
  return witnesses.size();
}

// Returns the time at which the NIC first failed towards another one than `opposite`.
TimeNs FaultLocaliser::lost_elsewhere_at(const NicName& nic, const NicName& opposite) const {
  TimeNs first = kNever;
  for (const Open& open : open_) {
    if (touches(open.seen, nic) && !touches(open.seen, opposite)) first = std::min(first, open.at);
  }
  return first;
}

void FaultLocaliser::note_recent(const NicName& nic, bool named, TimeNs now) {
  Recent recent;
  recent.nic = nic;
  recent.named = named;
  recent.at = now;
  recent_.push_back(std::move(recent));
}

void FaultLocaliser::remember(const NicName& nic, bool named, TimeNs now) {
  note_recent(nic, named, now);
  if (named) broken_nics_.insert(nic);
}

void FaultLocaliser::note_undecided(const NicName& nic, const Open& seed, TimeNs now) {
  for (const Open& open : open_) {
    if (!touches(open.seen, nic) || evidence(open) != evidence(seed)) continue;
    undecided_.insert_or_assign(pair_of(open.seen.near, open.seen.far),
                                Undecided{evidence(open), now});
  }
}

void FaultLocaliser::explain_by_loss(
    const std::function<LossExplains(const NicName& near, const NicName& far)>& explains,
    TimeNs now) {
  if (mutated(Mutant::loss_pairs)) return;
  // A NIC that reaches no other, or was seen to go down, has a worse fault than a loss.
  const auto concerned = [&](const Open& open) {
    return !open.probed && subject(open.seen) == nullptr && answers(open);
  };
  std::erase_if(open_, [&](const Open& open) {
    return concerned(open) && explains(open.seen.near, open.seen.far) == LossExplains::yes;
  });
  for (Open& open : open_) {
    const bool waits = now < open.at + kLossVerdictTimeout && open.ripe_at <= now + kLossLook;
    if (!waits || !concerned(open)) continue;
    if (explains(open.seen.near, open.seen.far) == LossExplains::no) continue;
    open.ripe_at = std::min(now + kLossLook, open.at + kLossVerdictTimeout);
  }
}

void FaultLocaliser::forget_old(TimeNs now) {
  // A fault that waits for idle paths still needs the probes' answers.
  const auto old = [&](const auto& entry) {
    return entry.second.at + kLateReportWindow + kSecond <= now;
  };
  std::erase_if(questions_, old);
  std::erase_if(reached_, old);
  std::erase_if(recent_, [&](const Recent& recent) { return recent.until() <= now; });
  std::erase_if(excuses_,
                [&](const Excuse& excuse) { return excuse.at + kLateReportWindow <= now; });
  std::erase_if(undecided_,
                [&](const auto& entry) { return entry.second.at + kLateReportWindow <= now; });
  if (!corruptions_.empty() || !tamperings_.empty()) forget_tampering(now);
  // If no lost path is open, nothing needs the unanswered probes.
  if (std::ranges::all_of(open_, &Open::probed)) open_.clear();
}

std::vector<Verdict> FaultLocaliser::due(TimeNs now) {
  std::vector<Verdict> verdicts = std::exchange(ready_, {});
  while (true) {
    const auto ripe = std::ranges::find_if(
        open_, [&](const Open& open) { return !open.probed && open.ripe_at <= now; });
    if (ripe == open_.end()) break;
    index();
    const std::vector<Open*> fault = fault_of(*ripe);
    R2CCL_CHECK(!fault.empty());
    const RailEvidence rail = rail_evidence(fault);
    const TimeNs heard_all_at = fault.front()->at + kLateReportWindow;
    if (rail == RailEvidence::full) {
      verdicts.push_back(localise_rail(fault, now));
    } else if (rail == RailEvidence::partial && now < heard_all_at) {
      // The paths that carry nothing will distinguish a rail from NICs that failed together.
      for (Open* open : fault) open->ripe_at = heard_all_at;
    } else if (waits_for_witness(*ripe, now)) {
      ripe->ripe_at = ripe->at + kLateReportWindow;
    } else {
      verdicts.push_back(localise_one(Open(*ripe), now));
    }
    ask_again(now);
  }
  forget_old(now);
  return verdicts;
}

void FaultLocaliser::check_invariants() const {
  const size_t hosts = nics_of_hosts_.size();
  for (const Open& open : open_) {
    R2CCL_CHECK(open.seen.near.host < hosts && open.seen.far.host < hosts);
    R2CCL_CHECK(open.question <= last_question_);
    R2CCL_CHECK(!open.probed || (open.covered && open.question != 0));
  }
  R2CCL_CHECK(questions_.size() <= kQuestionsMax);
  for (const auto& [number, question] : questions_) {
    R2CCL_CHECK(number > 0 && number <= last_question_);
    R2CCL_CHECK(question.hosts.size() <= kProbeHostsMax);
    for (const auto& [host, answers] : question.awaited) {
      R2CCL_CHECK(answers > 0 && question.hosts.contains(host));
    }
  }
}

}  // namespace r2ccl
