// Chooses the hosts that the localiser asks to probe, and the losses to ask about: one question at
// a time for one fault. Takes the answers.
#include <algorithm>

#include "base/check.h"
#include "protocol/diagnosis/fault_localiser.h"

namespace r2ccl {

// Groups the losses into faults: two losses belong to one fault when they have a NIC in common, or
// are linked by others that have.
std::vector<std::vector<FaultLocaliser::Loss*>> FaultLocaliser::faults() {
  std::map<NicName, size_t> nics;
  std::vector<size_t> parent;  // a union-find over the NICs
  const auto group_of = [&](const NicName& nic) {
    const auto [found, fresh] = nics.try_emplace(nic, parent.size());
    if (fresh) parent.push_back(found->second);
    size_t group = found->second;
    while (parent[group] != group) group = parent[group] = parent[parent[group]];
    return group;
  };
  for (const Loss& loss : losses_) {
    const size_t near = group_of(loss.seen.near);
    parent[group_of(loss.seen.far)] = near;
  }
  std::vector<std::vector<Loss*>> faults;
  std::map<size_t, size_t> place;
  for (Loss& loss : losses_) {
    const auto [found, fresh] = place.try_emplace(group_of(loss.seen.near), faults.size());
    if (fresh) faults.emplace_back();
    faults[found->second].push_back(&loss);
  }
  return faults;
}

// Returns both ends of the pairs that the question is about, then ends of the fault's other pairs,
// as many as there is room for, and third hosts.
std::set<uint32_t> FaultLocaliser::hosts_to_ask(const std::vector<Loss*>& asking,
                                                const std::vector<Loss*>& fault) const {
  std::set<uint32_t> hosts;
  const auto add = [&](uint32_t host) {
    if (hosts.size() < kProbeHostsMax) hosts.insert(host);
  };
  for (const auto* losses : {&asking, &fault}) {
    for (const Loss* loss : *losses) {
      add(loss->seen.near.host);
      add(loss->seen.far.host);
    }
  }
  R2CCL_CHECK(!hosts.empty());
  // Do not ask the same few hosts about every fault of a large job.
  const auto count = static_cast<uint32_t>(nics_of_hosts_.size());
  const uint32_t first = *hosts.begin();
  for (uint32_t i = 1; i < count; ++i) add((first + i) % count);
  return hosts;
}

// Returns the losses of a fault that need a question of their own now. A few pairs of one NIC tell
// as much as all, and the verdict explains the rest. So while a question is pending or its verdict
// is near, the fault's other losses wait for the verdict (ask_again). Where the tried pairs answer,
// the verdict takes longer, and only losses for which connects are no evidence wait for it.
std::vector<FaultLocaliser::Loss*> FaultLocaliser::without_question(const std::vector<Loss*>& fault,
                                                                    TimeNs now) {
  bool asked = false;
  bool soon = false;
  for (const Loss* loss : fault) {
    if (loss->question == 0) continue;
    asked = true;
    const auto found = questions_.find(loss->question);
    const bool pending = found != questions_.end() && found->second.awaited.size() > 1 &&
                         now < found->second.at + kSettleTime;
    soon = soon || pending || loss->ripe_at <= now + kSettleTime;
  }
  std::vector<Loss*> asking;
  for (Loss* loss : fault) {
    if (!wants_question(*loss, now)) continue;
    loss->waits = asked && (soon || finest(loss->seen) == DownCause::stalled);
    if (!loss->waits) asking.push_back(loss);
  }
  return asking;
}

ProbeRequest FaultLocaliser::ask(const std::vector<Loss*>& asking, const std::vector<Loss*>& fault,
                                 TimeNs now) {
  Question question{now, hosts_to_ask(asking, fault), {}};
  for (const uint32_t host : question.hosts) question.awaited[host] = 1;
  const uint32_t number = ++last_question_;
  for (Loss* loss : fault) {
    const bool covers = question.hosts.contains(loss->seen.near.host) &&
                        question.hosts.contains(loss->seen.far.host);
    if (covers && loss->question == 0) loss->question = number;
    loss->waits = loss->question == 0;
  }
  const ProbeRequest request{number, {question.hosts.begin(), question.hosts.end()}};
  if (questions_.size() >= kQuestionsMax) questions_.erase(questions_.begin());
  questions_[number] = std::move(question);
  return request;
}

bool FaultLocaliser::wants_question(const Loss& loss, TimeNs now) const {
  return loss.question == 0 && !loss.waits && subject(loss.seen) == nullptr && loss.asks_at <= now;
}

std::vector<ProbeRequest> FaultLocaliser::wanted(TimeNs now) {
  std::vector<ProbeRequest> requests;
  const auto wants = [&](const Loss& loss) { return wants_question(loss, now); };
  if (std::ranges::none_of(losses_, wants)) return requests;
  for (const std::vector<Loss*>& fault : faults()) {
    const std::vector<Loss*> asking = without_question(fault, now);
    if (!asking.empty()) requests.push_back(ask(asking, fault, now));
  }
  return requests;
}

// After a verdict, asks about the losses that it did not explain and that no question has tried.
void FaultLocaliser::ask_again(TimeNs now) {
  if (std::ranges::none_of(losses_, &Loss::waits)) return;
  for (const std::vector<Loss*>& fault : faults()) {
    if (std::ranges::any_of(fault, [](const Loss* loss) { return loss->question != 0; })) continue;
    for (Loss* loss : fault) {
      if (!std::exchange(loss->waits, false)) continue;
      loss->ripe_at = std::max(loss->ripe_at, now + kProbeTimeout);
    }
  }
}

void FaultLocaliser::expect_answers(uint32_t number, uint32_t host, size_t ranks) {
  const auto question = questions_.find(number);
  if (question == questions_.end()) return;
  const auto awaited = question->second.awaited.find(host);
  if (awaited == question->second.awaited.end()) return;
  if (ranks > 0) {
    awaited->second = ranks;
  } else {
    question->second.awaited.erase(awaited);  // no rank lives there
  }
}

// One end's answer that the pair works is enough: the other end may have had no time.
void FaultLocaliser::take_answer(const Reach& reach, const Question& question, uint32_t number,
                                 TimeNs now) {
  const NicPair pair = pair_of(reach.near, reach.far);
  Probe& probe = probes_[pair];
  if (!reach.reached && probe.reached && probe.question >= number) return;
  probe = {number, question.at, now, reach.reached};
  if (!reach.reached) return;
  for (Standing& s : standing_) {
    const bool works =
        s.names(pair.first) || s.names(pair.second) || (s.between && s.pairs.contains(pair));
    s.over = s.over || works;
  }
}

void FaultLocaliser::on_answer(const ProbeAnswer& answer, TimeNs now) {
  const auto found = questions_.find(answer.number);
  if (found == questions_.end()) return;
  Question& question = found->second;
  const auto awaited = question.awaited.find(answer.host);
  if (awaited == question.awaited.end()) return;
  if (--awaited->second == 0) question.awaited.erase(awaited);
  for (const Reach& reach : answer.tried) {
    const bool asked = reach.near.host == answer.host && reach.far.host != answer.host &&
                       question.hosts.contains(reach.far.host);
    if (asked) take_answer(reach, question, answer.number, now);
  }
  // Each pair has two ends, so one host's answer may be missing.
  if (question.awaited.size() > 1) return;
  index();
  for (Loss& loss : losses_) {
    if (loss.question != answer.number || subject(loss.seen) != nullptr) continue;
    loss.ripe_at = std::max(loss.at + time_for(loss), now);
  }
}

// Returns the time for the other evidence on a loss whose question has its answers. Where the hosts
// could not try the pair, losses elsewhere are the evidence, and idle paths are slow to notice. One
// end of a connection may know better why it was reset.
TimeNs FaultLocaliser::time_for(const Loss& loss) const {
  if (probe_of(loss) == nullptr) return kLateReportWindow;
  switch (evidence(loss)) {
    case Evidence::silent:
      return kSettleTime;
    case Evidence::stalled:
      return kStalledTime;
    case Evidence::reset:
      return kProbeTimeout;
  }
  return kProbeTimeout;
}

}  // namespace r2ccl
