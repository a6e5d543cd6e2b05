// Chooses the hosts that the localiser asks to probe, and the losses to ask about: one question at
// a time for one fault.
#include <algorithm>

#include "base/check.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/diagnosis/fault_localiser_facts.h"

namespace r2ccl {

// Groups the open entries into faults: two entries belong to one fault when they have a NIC in
// common, or are linked by others that have. A union-find over the NICs.
std::vector<std::vector<FaultLocaliser::Open*>> FaultLocaliser::faults() {
  std::map<NicName, size_t> nics;
  std::vector<size_t> parent;
  const auto group_of = [&](const NicName& nic) {
    const auto [found, fresh] = nics.try_emplace(nic, parent.size());
    if (fresh) parent.push_back(found->second);
    size_t group = found->second;
    while (parent[group] != group) group = parent[group] = parent[parent[group]];
    return group;
  };
  for (const Open& open : open_) {
    const size_t near = group_of(open.seen.near);
    parent[group_of(open.seen.far)] = near;
  }
  std::vector<std::vector<Open*>> faults;
  std::map<size_t, size_t> place;
  for (Open& open : open_) {
    const auto [found, fresh] = place.try_emplace(group_of(open.seen.near), faults.size());
    if (fresh) faults.emplace_back();
    faults[found->second].push_back(&open);
  }
  return faults;
}

std::vector<FaultLocaliser::Open*> FaultLocaliser::fault_of(const Open& seed) {
  for (std::vector<Open*>& fault : faults()) {
    if (std::ranges::find(fault, &seed) != fault.end()) return std::move(fault);
  }
  return {};
}

// Returns both ends of the pairs that the question is about, then ends of the fault's other pairs,
// as many as there is room for, and third hosts.
std::set<uint32_t> FaultLocaliser::hosts_to_ask(const std::vector<Open*>& asking,
                                                const std::vector<Open*>& fault) const {
  std::set<uint32_t> hosts;
  const auto add = [&](uint32_t host) {
    if (hosts.size() < kProbeHostsMax && host < nics_of_hosts_.size()) hosts.insert(host);
  };
  for (const auto* pairs : {&asking, &fault}) {
    for (const Open* open : *pairs) {
      add(open->seen.near.host);
      add(open->seen.far.host);
    }
  }
  R2CCL_CHECK(!hosts.empty());
  // Do not ask the same few hosts about every fault of a large job.
  const auto count = static_cast<uint32_t>(nics_of_hosts_.size());
  const uint32_t first = *hosts.begin();
  for (uint32_t i = 1; i < count; ++i) add((first + i) % count);
  return hosts;
}

bool FaultLocaliser::wants_question(const Open& open, TimeNs now) const {
  return open.question == 0 && !open.probed && subject(open.seen) == nullptr &&
         open.at + kCoalesceTime <= now;
}

// Returns the losses of a fault that need a question of their own now. A few pairs of one NIC tell
// as much as all, and the verdict explains the rest. So while a question is pending or its verdict
// is near, the fault's other losses wait for the verdict (ask_again). Where the tried pairs answer,
// the verdict takes longer, and only losses for which connects are no evidence wait for it.
std::vector<FaultLocaliser::Open*> FaultLocaliser::without_question(const std::vector<Open*>& fault,
                                                                    TimeNs now) {
  uint32_t question = 0;
  bool soon = false;
  for (const Open* open : fault) {
    if (!open->covered || open->probed) continue;
    question = open->question;
    const auto found = questions_.find(question);
    const bool pending = found != questions_.end() && found->second.awaited.size() > 1 &&
                         now < found->second.at + kSettleTime;
    soon = soon || pending || open->ripe_at <= now + kSettleTime;
  }
  std::vector<Open*> asking;
  for (Open* open : fault) {
    if (!wants_question(*open, now)) continue;
    const bool waits = question != 0 && (soon || finest(open->seen) == DownCause::stalled);
    if (waits) open->question = question;
    if (!waits) asking.push_back(open);
  }
  return asking;
}

ProbeRequest FaultLocaliser::ask(const std::vector<Open*>& asking, const std::vector<Open*>& fault,
                                 TimeNs now) {
  Question question{now, hosts_to_ask(asking, fault), {}, {}};
  for (const uint32_t host : question.hosts) question.awaited[host] = 1;
  const uint32_t number = ++last_question_;
  for (Open* open : asking) open->question = number;
  for (Open* open : fault) {
    const bool covers = question.hosts.contains(open->seen.near.host) &&
                        question.hosts.contains(open->seen.far.host);
    if (!covers || open->covered) continue;
    open->question = number;
    open->covered = true;
  }
  const ProbeRequest request{number, {question.hosts.begin(), question.hosts.end()}};
  if (questions_.size() >= kQuestionsMax) questions_.erase(questions_.begin());
  questions_[number] = std::move(question);
  return request;
}

void FaultLocaliser::expect_answers(uint32_t number, uint32_t host, size_t ranks) {
  const auto question = questions_.find(number);
  if (question == questions_.end()) return;
  const auto awaited = question->second.awaited.find(host);
  if (awaited == question->second.awaited.end()) return;
  if (ranks > 0) {
    awaited->second = ranks;
  } else {
    question->second.awaited.erase(awaited);  // nobody there lives
  }
}

std::vector<ProbeRequest> FaultLocaliser::wanted(TimeNs now) {
  std::vector<ProbeRequest> requests;
  const auto wants = [&](const Open& open) { return wants_question(open, now); };
  if (std::ranges::none_of(open_, wants)) return requests;
  for (const std::vector<Open*>& fault : faults()) {
    const std::vector<Open*> asking = without_question(fault, now);
    if (!asking.empty()) requests.push_back(ask(asking, fault, now));
  }
  return requests;
}

// After a verdict, asks about the losses that it did not explain and that no question has tried.
void FaultLocaliser::ask_again(TimeNs now) {
  const auto waits = [](const Open& open) {
    return open.question != 0 && !open.covered && !open.probed && subject(open.seen) == nullptr;
  };
  if (std::ranges::none_of(open_, waits)) return;
  for (const std::vector<Open*>& fault : faults()) {
    const bool awaited =
        std::ranges::any_of(fault, [](const Open* open) { return open->covered && !open->probed; });
    if (awaited) continue;
    for (Open* open : fault) {
      if (!waits(*open)) continue;
      open->question = 0;
      open->ripe_at = std::max(open->ripe_at, now + kProbeTimeout);
    }
  }
}

}  // namespace r2ccl
