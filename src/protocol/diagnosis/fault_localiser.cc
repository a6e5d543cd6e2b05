#include "protocol/diagnosis/fault_localiser.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {

bool FaultLocaliser::Standing::touches(const NicPair& pair) const {
  return std::ranges::any_of(pairs, [&](const NicPair& own) {
    return r2ccl::touches(own, pair.first) || r2ccl::touches(own, pair.second);
  });
}

// Returns whether a recent verdict explains the observation. A direct report is news, unless it is
// of a NIC that was named already. A path that came back after the verdict, and is lost again,
// shows another fault.
bool FaultLocaliser::absorbed(const Observation& o, TimeNs now) const {
  return std::ranges::any_of(standing_, [&](const Standing& s) {
    if (now >= s.at + kLateReportWindow || now - from_us(o.since_up_us) > s.at) return false;
    if (const NicName* nic = subject(o)) return s.names(*nic);
    return s.names(o.near) || s.names(o.far) || s.pairs.contains(pair_of(o));
  });
}

bool FaultLocaliser::update(const Observation& o) {
  const auto same = [&](const Loss& loss) {
    const Observation& seen = loss.seen;
    return seen.observer == o.observer && seen.peer == o.peer && seen.near == o.near &&
           seen.far == o.far && seen.wall == o.wall;
  };
  const auto found = std::ranges::find_if(losses_, same);
  if (found == losses_.end()) return false;
  found->seen.retransmitted_bytes =
      std::max(found->seen.retransmitted_bytes, o.retransmitted_bytes);
  found->seen.stall_us = std::max(found->seen.stall_us, o.stall_us);
  return true;
}

// Drops the earlier reports of the ended peer's connections: they were not the NICs' fault. Reports
// the end once, whichever rank observes it.
void FaultLocaliser::end_peer(const Observation& o) {
  std::erase_if(losses_, [&](const Loss& loss) {
    return loss.seen.observer == o.peer || loss.seen.peer == o.peer;
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
  for (Standing& s : standing_) {
    s.over = s.over || s.names(o.near) || s.names(o.far) || s.pairs.contains(pair_of(o));
  }
  const TimeNs timeout = subject(o) != nullptr ? kSettleTime : kProbeTimeout;
  Loss loss{.seen = o};
  loss.at = now - std::min(from_us(o.age_us), kLateReportWindow);
  loss.up_at = now - from_us(o.since_up_us);
  loss.asks_at = now + kCoalesceTime;
  // The rank that localised before has died. The others report to this one in the same moment.
  loss.ripe_at = std::max(loss.at + timeout, now + kSettleTime);
  losses_.push_back(std::move(loss));
}

// Losses that waited for the verdict on this one get a question.
void FaultLocaliser::withdraw(const Observation& o, TimeNs now) {
  const auto same = [&](const Loss& loss) {
    return loss.seen.observer == o.observer && loss.seen.peer == o.peer &&
           loss.seen.wall == o.wall && pair_of(loss.seen) == pair_of(o);
  };
  if (std::erase_if(losses_, same) > 0) ask_again(now);
}

// Drops the observations that the verdict explains. A host without networks reaches its own verdict
// about itself. Its peers may not notice before it is back and resets the connections that they
// still have open: that is the same fault.
void FaultLocaliser::on_verdict(const Verdict& verdict, TimeNs now) {
  if (verdict.kind == DownCause::tampered) {
    const NicPair pair = pair_of(verdict.faulty, verdict.other);
    if (!is_of_named_tampering(pair, now)) tamperings_.push_back({pair, now});
  }
  if (verdict.scope != Scope::nic) return;
  Standing standing;
  standing.named = {verdict.faulty};
  standing.wall = verdict.wall;
  standing.at = now;
  standing_.push_back(std::move(standing));
  std::erase_if(losses_, [&](const Loss& loss) { return absorbed(loss.seen, now); });
  ask_again(now);
}

TimeNs FaultLocaliser::next_timeout() const {
  TimeNs next = ready_.empty() ? kNever : 0;
  for (const Loss& loss : losses_) {
    next = std::min(next, loss.ripe_at);
    const bool asks = loss.question == 0 && !loss.waits && subject(loss.seen) == nullptr;
    if (asks) next = std::min(next, loss.asks_at);
  }
  return next;
}

bool FaultLocaliser::is_quiet() const {
  const auto explains_late_reports = [](const Standing& s) { return !s.is_old; };
  return losses_.empty() && ready_.empty() && questions_.empty() && probes_.empty() &&
         excuses_.empty() && corruptions_.empty() && tamperings_.empty() &&
         std::ranges::none_of(standing_, explains_late_reports);
}

void FaultLocaliser::explain_by_loss(
    const std::function<LossExplains(const NicName& near, const NicName& far)>& explains,
    TimeNs now) {
  if (mutated(Mutant::loss_pairs)) return;
  // A NIC that reaches no other, or was seen to go down, has a worse fault than a loss.
  const auto concerned = [&](const Loss& loss) {
    return subject(loss.seen) == nullptr && answers(loss);
  };
  std::erase_if(losses_, [&](const Loss& loss) {
    return concerned(loss) && explains(loss.seen.near, loss.seen.far) == LossExplains::yes;
  });
  for (Loss& loss : losses_) {
    const bool waits = now < loss.at + kLossVerdictTimeout && loss.ripe_at <= now + kLossLook;
    if (!waits || !concerned(loss)) continue;
    if (explains(loss.seen.near, loss.seen.far) == LossExplains::no) continue;
    loss.ripe_at = std::min(now + kLossLook, loss.at + kLossVerdictTimeout);
  }
}

void FaultLocaliser::forget_old(TimeNs now) {
  // A fault that waits for idle paths still needs the probes' answers.
  const auto old = [&](const auto& entry) {
    return entry.second.at + kLateReportWindow + kSecond <= now;
  };
  std::erase_if(questions_, old);
  std::erase_if(probes_, old);
  for (Standing& s : standing_) s.is_old = s.at + kLateReportWindow <= now;
  std::erase_if(standing_,
                [](const Standing& s) { return s.is_old && (s.over || s.named.empty()); });
  std::erase_if(excuses_,
                [&](const Excuse& excuse) { return excuse.at + kLateReportWindow <= now; });
  if (!corruptions_.empty() || !tamperings_.empty()) forget_tampering(now);
}

std::vector<Verdict> FaultLocaliser::due(TimeNs now) {
  const auto is_ripe = [&](const Loss& loss) { return loss.ripe_at <= now; };
  while (true) {
    const auto ripe = std::ranges::find_if(losses_, is_ripe);
    if (ripe == losses_.end()) break;
    index();
    judge(*ripe, now);
    ask_again(now);
  }
  forget_old(now);
  return std::exchange(ready_, {});
}

void FaultLocaliser::check_invariants() const {
  const size_t hosts = nics_of_hosts_.size();
  for (const Loss& loss : losses_) {
    R2CCL_CHECK(loss.seen.near.host < hosts && loss.seen.far.host < hosts);
    R2CCL_CHECK(loss.question <= last_question_);
  }
  for (const Standing& s : standing_) R2CCL_CHECK(s.named.empty() != s.pairs.empty());
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
