#include "runtime/incidents.h"

#include <algorithm>

#include "base/log.h"
#include "runtime/notice.h"

namespace r2ccl {
namespace {

// A report waits this long, so that it can say how long the hit chunks were delayed.
constexpr TimeNs kReportDelay = 50 * kMillisecond;
constexpr size_t kVerdictsMax = 10'000;

}  // namespace

Incidents::Incidents(ProgressEngine& engine, const Clock& clock) : engine_(engine), clock_(clock) {
  std::vector<HostId> ids;
  for (const RankCard& card : engine.cards()) {
    const auto found = std::find(ids.begin(), ids.end(), card.host);
    host_of_.push_back(static_cast<uint32_t>(found - ids.begin()));
    if (found != ids.end()) continue;
    ids.push_back(card.host);
    host_names_.push_back(card.host_name);
  }
  judge_ = Judge(static_cast<uint32_t>(host_names_.size()));
}

NicName Incidents::name_of(Rank rank, NicId nic) const {
  const auto& nics = engine_.cards()[static_cast<size_t>(rank.value())].nics;
  return {host_of(rank), nic.value() < nics.size() ? nics[nic.value()].name : "lo"};
}

void Incidents::on_path_event(const PathEvent& event) {
  const bool lost = event.to == PathPhase::down && event.cause != DownCause::closing &&
                    (event.from == PathPhase::up || event.from == PathPhase::suspect);
  if (!lost || event.planned || event.local_nic == kNoNic) return;
  Observation o;
  o.observer = engine_.self();
  o.peer = event.peer;
  o.near = name_of(engine_.self(), event.local_nic);
  o.far = name_of(event.peer, event.remote_nic);
  o.cause = event.cause;
  o.peer_cause = event.peer_cause;
  o.detected_us = static_cast<uint64_t>(event.detected_ns / kMicrosecond);
  o.replayed_bytes = event.replayed_bytes;
  o.up_us = static_cast<uint64_t>(event.up_ns / kMicrosecond);
  o.wall = clock_.wall();
  pending_.push_back({std::move(o), event.path, clock_.now() + kReportDelay});
}

void Incidents::on_peer_gone(Rank peer) {
  std::erase_if(pending_, [&](const Pending& p) { return p.observation.peer == peer; });
}

void Incidents::on_observation(std::span<const std::byte> bytes) {
  auto observation = decode_observation(bytes);
  if (observation.ok() && observation.value().near.host < host_names_.size() &&
      observation.value().far.host < host_names_.size()) {
    judge_.observe(observation.value(), clock_.now());
  }
}

void Incidents::on_verdict(std::span<const std::byte> bytes) {
  auto verdict = decode_verdict(bytes);
  if (verdict.ok() && verdict.value().culprit.host < host_names_.size() &&
      verdict.value().other.host < host_names_.size()) {
    add(verdict.value());
  }
}

std::string Incidents::words_for(const Verdict& verdict) const {
  const std::string culprit = host_names_[verdict.culprit.host] + " " + verdict.culprit.nic;
  switch (verdict.scope) {
    case Scope::nic:
      return culprit;
    case Scope::pair:
      return culprit + " or " + host_names_[verdict.other.host] + " " + verdict.other.nic;
    case Scope::rail:
      return "the rail of " + culprit;
  }
  return culprit;
}

void Incidents::add(const Verdict& verdict) {
  R2CCL_LOG(warn, "%s: %s, %llu bytes replayed", words_for(verdict).c_str(),
            to_string(verdict.kind), static_cast<unsigned long long>(verdict.replayed_bytes));
  if (verdicts_.size() < kVerdictsMax) verdicts_.push_back(verdict);
}

void Incidents::progress(const std::vector<bool>& ended) {
  const TimeNs now = clock_.now();
  Rank judge = engine_.self();
  for (size_t rank = 0; rank < ended.size(); ++rank) {
    const Rank candidate(static_cast<int32_t>(rank));
    if (!ended[rank] && candidate < judge) judge = candidate;
  }
  while (!pending_.empty() && pending_.front().due <= now) {
    Pending report = std::move(pending_.front());
    pending_.erase(pending_.begin());
    report.observation.stall_us = static_cast<uint64_t>(
        engine_.link(report.observation.peer)->stall_of(report.path) / kMicrosecond);
    if (judge == engine_.self()) {
      judge_.observe(report.observation, now);
    } else {
      engine_.link(judge)->send_notice(
          make_notice(NoticeKind::observation, encode(report.observation)));
    }
  }
  for (Verdict& verdict : judge_.due(now)) {
    verdict.number = static_cast<uint32_t>(verdicts_.size());
    add(verdict);
    for (size_t rank = 0; rank < ended.size(); ++rank) {
      Link* link = engine_.link(Rank(static_cast<int32_t>(rank)));
      if (link == nullptr || ended[rank]) continue;
      link->send_notice(make_notice(NoticeKind::verdict, encode(verdict)));
    }
  }
}

TimeNs Incidents::next_timeout() const {
  return std::min(judge_.next_timeout(), pending_.empty() ? kNever : pending_.front().due);
}

}  // namespace r2ccl
