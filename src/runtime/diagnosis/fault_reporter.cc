#include "runtime/diagnosis/fault_reporter.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "runtime/diagnosis/nic_names.h"
#include "runtime/diagnosis/verdict_words.h"
#include "runtime/health/election.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

// After this time the delay of the stalled chunks is known.
constexpr TimeNs kSettled = 50 * kMillisecond;
// The localising rank may die. The next one needs the reports on which no verdict has been made.
constexpr TimeNs kKept = 500 * kMillisecond;
// The localising rank waits for so long for the other reports of a fault whose pair answers.
constexpr TimeNs kInTime = 250 * kMillisecond;
constexpr size_t kVerdictsMax = 10'000;
// A connection that broke because of loss has its verdict, if any, at most so long before the NIC
// is named.
constexpr TimeNs kOneFault = 5 * kSecond;

// A request replaces one that the localising rank no longer waits for.
uint64_t probe_slot(uint32_t number) {
  return number % kQuestionsMax;
}

// A report replaces an earlier one of the same path, or of the same peer's end.
uint64_t subject_of(const Observation& o, std::optional<PathId> path) {
  const uint64_t of_peer = uint64_t{static_cast<uint32_t>(o.peer.value())} << 32;
  return path ? of_peer + 1 + path->value() : of_peer;
}

// Returns whether the one verdict is on a pair, and the other names more for the same loss.
bool is_coarser(const Verdict& one, const Verdict& other) {
  if (one.scope != Scope::pair || one.wall != other.wall) return false;
  const uint32_t host = other.faulty.host;
  return other.scope == Scope::rail ||
         (other.scope == Scope::host && (one.faulty.host == host || one.other.host == host)) ||
         (other.scope == Scope::nic && (one.faulty == other.faulty || one.other == other.faulty));
}

}  // namespace

FaultReporter::FaultReporter(ProgressEngine& engine, const HostNics& host_nics, RankQuery& query,
                             const Clock& clock, std::function<void(size_t)> made, bool logs)
    : engine_(engine),
      host_nics_(host_nics),
      query_(query),
      clock_(clock),
      made_(std::move(made)),
      logs_(logs),
      losses_(engine, clock, [this](Rank rank, NicId nic) { return name_of(rank, nic); }),
      excuses_(engine),
      trust_(engine),
      prober_(engine, clock,
              [this](Rank requester, const ProbeAnswer& answer) { on_probed(requester, answer); }) {
  std::vector<size_t> nics;
  for (size_t host = 0; host < host_nics.hosts(); ++host) {
    nics.push_back(host_nics.names(host).size());
  }
  loss_localiser_ = LossLocaliser(nics);
  fault_localiser_ = FaultLocaliser(std::move(nics));
  query_.serve(QueryTopic::probe, probe_handler());
}

NicName FaultReporter::name_of(Rank rank, NicId nic) const {
  const auto& nics = job().info(rank).nics;
  return {host_of(rank), nic.value() < nics.size() ? nics[nic.value()].name : "lo"};
}

void FaultReporter::on_path_event(const PathEvent& event) {
  // Report bad bytes in any phase, and from standby: the other end may have used a path that this
  // end was still validating, or that it no longer drains. This report excuses the path.
  const bool of_bytes = is_of_bytes(event.cause);
  const bool used = event.from == PathPhase::up || event.from == PathPhase::suspect;
  const bool fault = used && !event.planned && !event.aftermath;
  const bool lost = event.to == PathPhase::down && event.cause != DownCause::closing;
  const bool of_no_nic = event.local_nic == kNoNic && !mutated(Mutant::relay_blamed);
  if (!lost || !(fault || of_bytes) || of_no_nic) return;
  losses_.hurry();
  Observation o;
  o.observer = engine_.self();
  o.peer = event.peer;
  o.near = name_of(engine_.self(), event.local_nic);
  o.far = name_of(event.peer, event.remote_nic);
  o.incarnation = event.incarnation;
  o.cause = event.cause;
  o.peer_cause = event.peer_cause;
  o.detected_us = static_cast<uint64_t>(event.detected_ns / kMicrosecond);
  o.retransmitted_bytes = event.retransmitted_bytes;
  o.since_up_us = static_cast<uint64_t>(event.up_ns / kMicrosecond);
  o.wall = clock_.wall();
  // The path has been up again since an earlier report.
  std::erase_if(reports_, [&](const Report& report) {
    return report.late && report.observation.peer == event.peer && report.path == event.path;
  });
  Report report;
  report.observation = std::move(o);
  report.path = event.path;
  report.lost_at = clock_.now();
  report.settled_at = report.lost_at + kSettled;
  reports_.push_back(std::move(report));
}

// Returns whether the NICs of this host are the cause that the peer is out of reach. Each of them
// has a verdict of its own.
bool FaultReporter::is_cut_off_here(Rank peer) const {
  bool any = false;
  for (const Path* path : engine_.link(peer)->paths()) {
    if (path->spec.control_only || path->spec.relay) continue;
    if (!direct(path->history.cause)) return false;
    any = true;
  }
  return any;
}

void FaultReporter::on_peer_gone(Rank peer, PeerEnd end) {
  std::erase_if(reports_, [&](const Report& report) { return report.observation.peer == peer; });
  if (end == PeerEnd::goodbye || (end == PeerEnd::cut_off && is_cut_off_here(peer))) return;
  Observation o;
  o.observer = engine_.self();
  o.peer = peer;
  o.near = {host_of(engine_.self()), ""};
  o.far = {host_of(peer), ""};
  o.cause = end == PeerEnd::dead ? DownCause::connection_lost : DownCause::silent;
  o.wall = clock_.wall();
  Report report;
  report.observation = std::move(o);
  report.lost_at = clock_.now();
  report.settled_at = report.lost_at + kSettled;
  reports_.push_back(std::move(report));
}

void FaultReporter::on_observation(Rank peer, std::span<const std::byte> bytes) {
  auto observation = decode_observation(peer, bytes);
  if (!observation.ok()) return;
  const Observation& o = observation.value();
  if (!job().has(o.peer) || o.peer == peer) return;
  if (is_nic_of(job(), peer, o.near) && is_nic_of(job(), o.peer, o.far)) {
    fault_localiser_.observe(o, clock_.now());
  }
}

void FaultReporter::on_verdict(Rank peer, std::span<const std::byte> bytes) {
  const auto verdict = decode_verdict(bytes);
  if (!verdict.ok()) return;
  const uint32_t last = std::max(verdict.value().faulty.host, verdict.value().other.host);
  if (last >= job().hosts()) return;
  const TimeNs now = clock_.now();
  if (trust_.hear(peer, verdict.value(), now)) take(verdict.value(), now);
}

void FaultReporter::take(const Verdict& verdict, TimeNs now) {
  if (!trust_.is_new(verdict)) return;
  add(verdict);
  loss_localiser_.on_verdict(verdict, now);
  fault_localiser_.on_verdict(verdict, now);
}

// A more precise verdict replaces the earlier one of the same fault. More losses may name one end
// of a pair; both verdicts have the time of the first loss then. A NIC that loses packets breaks
// connections, so a verdict may have named its pairs first.
size_t FaultReporter::place_of(const Verdict& verdict) const {
  const bool lossy = verdict.kind == DownCause::lossy && !mutated(Mutant::loss_pairs);
  const auto replaced = [&](const Verdict& old) {
    if (!lossy) return is_coarser(old, verdict);
    if (verdict.wall - old.wall > kOneFault) return false;
    // With much loss nothing arrives for a while.
    const bool mute = old.kind == DownCause::silent || old.kind == DownCause::stalled;
    if (old.scope == Scope::nic && mute && old.faulty == verdict.faulty) return true;
    if (old.scope != Scope::pair || old.kind == DownCause::tampered) return false;
    const bool same = old.faulty == verdict.faulty && old.other == verdict.other;
    const bool of_nic = old.faulty == verdict.faulty || old.other == verdict.faulty;
    return verdict.scope == Scope::nic ? of_nic : same;
  };
  const auto found = std::ranges::find_if(verdicts_, replaced);
  return static_cast<size_t>(found - verdicts_.begin());
}

// Two ranks that localise may judge one loss differently, and the others hear of it in any order.
void FaultReporter::add(const Verdict& verdict) {
  if (std::ranges::any_of(verdicts_, [&](const Verdict& v) { return is_coarser(verdict, v); }))
    return;
  const size_t place = place_of(verdict);
  if (logs_) log_verdict(words_for(verdict, job()), verdict, place < verdicts_.size());
  if (place < verdicts_.size()) {
    verdicts_[place] = verdict;
  } else if (verdicts_.size() < kVerdictsMax) {
    verdicts_.push_back(verdict);
  } else {
    return;
  }
  if (made_) made_(place);
}

void FaultReporter::on_losses(Rank peer, std::span<const std::byte> bytes) {
  auto report = decode_loss_report(bytes);
  if (!report.ok() || report.value().observer != peer) return;
  // A rank counts the packets that it sends itself.
  std::erase_if(report.value().samples, [&](const LossSample& sample) {
    return !is_nic_of(job(), peer, sample.near) || !is_nic_of_host(job(), sample.far);
  });
  loss_localiser_.on_report(report.value(), clock_.now());
}

void FaultReporter::report_losses(const LossReport& report, Rank localiser, TimeNs now) {
  if (localiser == engine_.self()) return loss_localiser_.on_report(report, now);
  engine_.link(localiser)->send_notice(make_notice(NoticeKind::losses, encode(report)));
}

// Returns whether the rank may be the one that localises, as far as this rank can know. A lower one
// may have lost its connections to all ranks below it. A higher one is connected to this rank, or
// its question would not be here. It may have asked before that; now this rank is the lower one,
// unless it has left.
bool FaultReporter::may_localise(Rank peer) const {
  return peer < engine_.self() || engine_.link(peer)->ends();
}

RankQuery::Handler FaultReporter::probe_handler() {
  RankQuery::Handler handler;
  handler.question = [this](Rank from, uint32_t number,
                            std::span<const std::byte> body) -> Result<RankQuery::Reply> {
    auto request = decode_probe_request(body);
    if (!request.ok()) return request.status();
    if (!may_localise(from)) return RankQuery::Reply();
    request.value().number = number;
    probe(from, request.value());
    return RankQuery::Reply();
  };
  handler.answer = [this](Rank from, uint32_t number,
                          std::span<const std::byte> body) -> Result<std::string> {
    auto answer = decode_probe_answer(body);
    if (!answer.ok()) return answer.status();
    if (answer.value().host != host_of(from)) {
      return Status(Code::remote, "an answer about the NICs of another host");
    }
    std::erase_if(answer.value().tried, [&](const Reach& reach) {
      return !is_nic_of(job(), from, reach.near) || !is_nic_of_host(job(), reach.far);
    });
    answer.value().number = number;
    fault_localiser_.on_answer(answer.value(), clock_.now());
    return std::string();
  };
  return handler;
}

void FaultReporter::tell(const Report& report, Rank localiser, TimeNs now) {
  Observation o = report.observation;
  o.age_us = static_cast<uint64_t>((clock_.now() - report.lost_at) / kMicrosecond);
  o.since_up_us += o.age_us;
  if (localiser == engine_.self()) return fault_localiser_.observe(o, now);
  const uint64_t subject = subject_of(o, report.path);
  engine_.link(localiser)->send_notice(make_notice(NoticeKind::observation, subject, encode(o)));
}

// The present localising rank also knows the other end's report of the same loss. The previous one
// may not, and may read this rank's report long after this.
void FaultReporter::take_back(const Report& report, Rank localiser, TimeNs now) {
  if (!report.path || mutated(Mutant::stale_reports)) return;
  Report retraction = report;
  retraction.observation.cause = DownCause::none;
  retraction.observation.peer_cause = DownCause::none;
  tell(retraction, localiser, now);
}

// A peer that has said goodbye reports nothing anew. So a new localising rank would never hear the
// peer's cause (`corrupted`, `protocol`) of a loss, and the report stays with the previous one.
Rank FaultReporter::recipient(const Report& report, Rank localiser) const {
  if (!report.told) return localiser;
  return engine_.link(report.observation.peer)->peer_said_goodbye() ? *report.told : localiser;
}

// Returns whether the rank has applied the latest notice of this report.
bool FaultReporter::delivered(const Report& report, Rank localiser) const {
  if (localiser == engine_.self()) return true;
  const NoticeSlot slot{static_cast<uint8_t>(NoticeKind::observation),
                        subject_of(report.observation, report.path)};
  return engine_.link(localiser)->notice_delivered(slot);
}

// Returns whether the report will arrive so late that it is no evidence any more: the other end's
// report may come at quite another time, and the pair may work again. The word of a NIC's own host
// needs no other evidence, and an end that closed its path because of the bytes accuses no NIC.
bool FaultReporter::is_late(const Report& report, TimeNs now) const {
  const Observation& o = report.observation;
  if (!report.told || !report.path || report.arrived || report.late) return false;
  return now >= report.told_at + kInTime && subject(o) == nullptr && !is_of_bytes(finest(o));
}

bool FaultReporter::is_over(const Report& report) const {
  const Path* path = engine_.link(report.observation.peer)->find_path(*report.path);
  if (path == nullptr) return true;
  const PathPhase phase = path->state.phase();
  return phase == PathPhase::up || phase == PathPhase::suspect;
}

// The path may still be lost when the localising rank answers again. Then the loss is evidence, and
// goes out once more.
void FaultReporter::take_back_late(TimeNs now) {
  for (Report& report : reports_) {
    if (!report.told || report.arrived) continue;
    report.arrived = delivered(report, *report.told);
    if (!is_late(report, now)) continue;
    take_back(report, *report.told, now);
    report.told.reset();
    report.late = true;
  }
}

void FaultReporter::report_all(Rank localiser, TimeNs now) {
  take_back_late(now);
  std::erase_if(reports_, [&](const Report& report) {
    const bool waits = report.late && !report.told;
    return waits ? is_over(report) : report.settled && now >= report.settled_at + kKept;
  });
  for (Report& report : reports_) {
    const Rank to = recipient(report, localiser);
    if (report.path && !std::exchange(report.shared, true)) {
      excuses_.tell(report.observation, *report.path);
    }
    const bool excused = report.path && excuses_.apply(report.observation);
    // A death breaks every path, and is no fault of one: the report waits until the peer is found
    // dead or alive.
    if (report.path && engine_.link(report.observation.peer)->may_be_dead()) {
      if (report.told) take_back(report, *report.told, now);
      report.told.reset();
      continue;
    }
    if (report.late && !report.told && !delivered(report, to)) continue;
    const bool settles = !report.settled && now >= report.settled_at;
    if (report.told == to && !settles && !excused) continue;
    const uint64_t told_stall_us = report.observation.stall_us;
    if (settles && report.path) {
      const TimeNs stall = engine_.link(report.observation.peer)->find_path(*report.path)->stall;
      report.observation.stall_us = static_cast<uint64_t>(stall / kMicrosecond);
    }
    report.settled = report.settled || settles;
    if (report.told && report.told != to) take_back(report, *report.told, now);
    if (report.told != to) report.told_at = now;
    const bool news = report.told != to || report.observation.stall_us != told_stall_us || excused;
    report.told = to;
    if (news) tell(report, to, now);
  }
}

// Asks those ranks of each host that together use all its NICs.
void FaultReporter::ask(const ProbeRequest& request, const std::vector<bool>& ended) {
  std::vector<Rank> others;
  for (const uint32_t host : request.hosts) {
    const std::vector<Rank> ranks = host_nics_.users_of_all(host, ended);
    fault_localiser_.expect_answers(request.number, host, ranks.size());
    for (const Rank rank : ranks) {
      if (rank == engine_.self()) {
        probe(rank, request);
      } else {
        others.push_back(rank);
      }
    }
  }
  query_.ask(QueryTopic::probe, request.number, others, encode(request),
             probe_slot(request.number));
}

// Returns a path to each NIC of these hosts from each NIC of this rank, where there is one.
std::vector<NicProber::Target> FaultReporter::targets_of(const ProbeRequest& request) const {
  std::vector<NicProber::Target> targets;
  const auto is_there = [&](const Reach& reach) {
    return std::ranges::any_of(targets, [&](const NicProber::Target& each) {
      return each.reach.near == reach.near && each.reach.far == reach.far;
    });
  };
  for (size_t rank = 0; rank < job().size(); ++rank) {
    const Rank peer(static_cast<int32_t>(rank));
    const Link* link = engine_.link(peer);
    const bool asked = std::ranges::find(request.hosts, host_of(peer)) != request.hosts.end();
    if (link == nullptr || !asked || host_of(peer) == host_of(engine_.self())) continue;
    for (const auto& path : link->paths()) {
      const PathSpec& spec = path->spec;
      if (spec.control_only || spec.local_nic == kNoNic) continue;
      if (engine_.nics().is_own(spec.remote.address) && !spec.one_network) continue;
      NicProber::Target target;
      target.reach.near = name_of(engine_.self(), spec.local_nic);
      target.reach.far = name_of(peer, spec.remote_nic);
      if (is_there(target.reach)) continue;
      target.request.probe_only = true;
      target.request.path = spec.id;
      target.request.remote = spec.remote;
      target.request.options.device = spec.device;
      target.request.options.source = spec.source;
      // The queues of a busy path delay a connect less than its data.
      const TimeNs base = path->model.base_delay();
      target.round_trip =
          base > 0 ? std::min(base, path->health.round_trip) : path->health.round_trip;
      targets.push_back(std::move(target));
    }
  }
  return targets;
}

void FaultReporter::probe(Rank requester, const ProbeRequest& request) {
  prober_.start(requester, request.number, host_of(engine_.self()), targets_of(request));
}

void FaultReporter::on_probed(Rank requester, const ProbeAnswer& answer) {
  if (requester == engine_.self()) return fault_localiser_.on_answer(answer, clock_.now());
  query_.answer(QueryTopic::probe, requester, answer.number, encode(answer),
                probe_slot(answer.number));
}

void FaultReporter::announce_one(Verdict verdict, const std::vector<bool>& ended) {
  verdict.number = static_cast<uint32_t>(place_of(verdict));
  // A rank that was cut off may have found the same.
  if (trust_.is_new(verdict)) add(verdict);
  for (size_t rank = 0; rank < ended.size(); ++rank) {
    Link* link = engine_.link(Rank(static_cast<int32_t>(rank)));
    if (link == nullptr || ended[rank]) continue;
    link->send_notice(make_notice(NoticeKind::verdict, verdict.number, encode(verdict)));
  }
}

void FaultReporter::announce(const std::vector<bool>& ended, bool localises, TimeNs now) {
  const auto tell = [&](const Verdict& verdict) {
    localises ? announce_one(verdict, ended) : trust_.keep(verdict, now);
  };
  for (const VerdictTrust::Said& said : trust_.settle(localises, now)) {
    said.by == engine_.self() ? tell(said.verdict) : take(said.verdict, now);
  }
  for (const Verdict& verdict : loss_localiser_.due(now)) tell(verdict);
  fault_localiser_.explain_by_loss(
      [&](const NicName& near, const NicName& far) {
        return loss_localiser_.explains(near, far, now);
      },
      now);
  for (const Verdict& verdict : fault_localiser_.due(now)) tell(verdict);
}

void FaultReporter::progress(const std::vector<bool>& ended) {
  const TimeNs now = engine_.polled_at();
  trust_.look(ended, now);
  const std::optional<LossReport> losses = losses_.progress(now);
  if (!losses && is_quiet()) return;
  const Rank localiser = deciding_rank(engine_, ended);
  if (losses) report_losses(*losses, localiser, now);
  report_all(localiser, now);
  for (const ProbeRequest& request : fault_localiser_.wanted(now)) ask(request, ended);
  prober_.progress();
  announce(ended, localiser == engine_.self(), now);
}

TimeNs FaultReporter::next_timeout() const {
  TimeNs next = std::min({fault_localiser_.next_timeout(), prober_.next_timeout(),
                          loss_localiser_.next_timeout(), losses_.next_timeout()});
  next = std::min(next, trust_.next_timeout());
  for (const Report& report : reports_) {
    if (!report.told && engine_.link(report.observation.peer)->may_be_dead()) continue;
    // A new report has not been sent yet.
    const TimeNs due = report.settled ? report.settled_at + kKept : report.settled_at;
    if (report.late && !report.told) continue;  // until the localising rank answers
    const TimeNs late_at = report.arrived || report.late ? kNever : report.told_at + kInTime;
    next = std::min(next, report.told ? std::min(due, late_at) : 0);
  }
  return next;
}

}  // namespace r2ccl
