#include "runtime/health/nic_health.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"
#include "runtime/health/election.h"

namespace r2ccl {
namespace {

NicId nic_id(size_t index) {
  return NicId(static_cast<uint16_t>(index));
}

std::pair<uint32_t, uint16_t> place_of(const RailRate& nic) {
  return {nic.host, nic.rail};
}

}  // namespace

NicHealth::NicHealth(ProgressEngine& engine, const HostNics& nics, const Clock& clock,
                     const std::vector<bool>& ended)
    : engine_(engine),
      clock_(clock),
      ended_(ended),
      nics_(nics),
      blamed_(engine.job().own_info().nics.size()),
      filter_(HostReach(own_nic_count(), NicReach{})),
      rate_watch_(own_nic_count()),
      windows_(engine, nics_, clock.now()),
      decides_(engine.self()) {
  told_ = report_of(filter_.reported(clock.now()));
}

bool NicHealth::has_gone(Rank rank) const {
  const Link* link = std::as_const(engine_).link(rank);
  if (link == nullptr) return false;
  return ended_[static_cast<size_t>(rank.value())] || link->peer_ended() ||
         link->peer_said_goodbye();
}

std::optional<NicRate> NicHealth::rate_at(uint32_t host, uint16_t rail) const {
  const std::pair wanted{host, rail};
  const auto found = std::ranges::lower_bound(rates_, wanted, {}, place_of);
  if (found == rates_.end() || place_of(*found) != wanted) return std::nullopt;
  return found->rate;
}

std::optional<NicRate> NicHealth::rate_of(uint32_t host, const std::string& nic) const {
  const std::optional<uint16_t> rail = nics_.rail_of(host, nic);
  return rail ? rate_at(host, *rail) : std::nullopt;
}

// Returns whether this rank reports the NIC: no lower rank of this host that lives uses it, or this
// rank's own traffic has met a fault that a verdict puts down to it.
bool NicHealth::speaks_for(NicId nic) const {
  const std::optional<uint16_t> rail = nics_.rail_of(engine_.self(), nic);
  if (!rail) return false;
  if (blamed_[nic.value()]) return true;
  for (const Rank rank : engine_.job().ranks_of(engine_.job().host_of(engine_.self()))) {
    if (rank == engine_.self()) return true;
    if (!has_gone(rank) && nics_.uses(rank, *rail)) return false;
  }
  return true;
}

// Returns this rank's sight of each host by each of its NICs. Only paths within a rail count: a NIC
// without a counterpart is paired with one of another rail, of which the reports of that rail tell.
std::vector<std::vector<NicHealth::Sight>> NicHealth::look_around() const {
  const JobMap& job = engine_.job();
  const uint32_t own_host = job.host_of(engine_.self());
  std::vector<std::vector<Sight>> by_nic(own_nic_count(), std::vector<Sight>(job.hosts()));
  for (size_t i = 0; i < engine_.rank_count(); ++i) {
    const Rank peer(static_cast<int32_t>(i));
    const Link* link = std::as_const(engine_).link(peer);
    if (link == nullptr || job.host_of(peer) == own_host || has_gone(peer)) continue;
    for (const Path* path : link->paths()) {
      const PathSpec& spec = path->spec;
      const size_t nic = spec.local_nic.value();
      if (spec.control_only || nic >= by_nic.size() || path->at_rest()) continue;
      const auto rail = nics_.rail_of(engine_.self(), spec.local_nic);
      if (!rail || nics_.rail_of(peer, spec.remote_nic) != rail) continue;
      const PathPhase phase = path->state.phase();
      const bool up = phase == PathPhase::up || phase == PathPhase::suspect;
      Sight& host = by_nic[nic][job.host_of(peer)];
      (up ? host.reached : host.missed) = true;
    }
  }
  return by_nic;
}

// A NIC reaches a host that it reaches by one of its paths to the ranks there. The paths of a NIC
// that a verdict names may be up though they carry nothing, or only small packets, so there each
// path counts that is not up. Takes the blame from a NIC that misses no host but those whose own
// NIC is lost.
NicReach NicHealth::reach_by(NicId nic, const std::vector<Sight>& hosts) {
  if (blamed_[nic.value()]) {
    const uint16_t rail = nics_.rail_of(engine_.self(), nic).value_or(UINT16_MAX);
    bool misses = false;
    for (uint32_t host = 0; host < hosts.size(); ++host) {
      const std::optional<NicRate> other = rate_at(host, rail);
      misses = misses || (hosts[host].missed && (!other || other->send > 0));
    }
    blamed_[nic.value()] = misses;
    if (misses) return {0, static_cast<uint32_t>(std::ranges::count_if(hosts, &Sight::missed))};
  }
  const auto misses = [](const Sight& host) { return host.missed && !host.reached; };
  return reach_of(static_cast<uint32_t>(std::ranges::count_if(hosts, &Sight::reached)),
                  static_cast<uint32_t>(std::ranges::count_if(hosts, misses)));
}

HostReach NicHealth::momentary() {
  const std::vector<std::vector<Sight>> sights = look_around();
  HostReach reach(own_nic_count());
  for (size_t i = 0; i < own_nic_count(); ++i) {
    if (!drained_.contains(nic_id(i))) reach[i] = reach_by(nic_id(i), sights[i]);
  }
  return reach;
}

// Returns the state of the NICs that this rank reports, and those of them that are slow, by their
// rails at both ends.
NicReport NicHealth::report_of(const HostReach& reach) const {
  NicReport report;
  for (size_t i = 0; i < own_nic_count(); ++i) {
    if (!speaks_for(nic_id(i))) continue;
    report.nics.push_back({*nics_.rail_of(engine_.self(), nic_id(i)), reach[i]});
  }
  std::ranges::sort(report.nics, {}, &NicState::rail);
  for (SlowNic slow : rate_watch_.slow()) {
    if (!speaks_for(nic_id(slow.nic))) continue;
    slow.nic = *nics_.rail_of(engine_.self(), nic_id(slow.nic));
    report.slow.push_back(slow);
  }
  std::ranges::sort(report.slow, {}, &SlowNic::nic);
  return report;
}

void NicHealth::doubt(NicId nic) {
  const auto& own = engine_.job().own_info().nics;
  const uint32_t host = engine_.job().host_of(engine_.self());
  if (nic.value() >= own.size() || rate_of(host, own[nic.value()].name)) return;
  const std::optional<uint16_t> rail = nics_.rail_of(engine_.self(), nic);
  const auto told =
      std::ranges::find_if(told_.nics, [&](const NicState& each) { return each.rail == rail; });
  if (told == told_.nics.end() || !told->reach || !told->reach->whole()) return;
  filter_.assume_lost(nic.value());
  told->reach = NicReach{0, 1};
  on_change();
}

// A NIC that only loses packets stays in use, also where an earlier verdict was less precise.
void NicHealth::on_verdict(const Verdict& verdict) {
  if (verdict.scope != Scope::nic && verdict.scope != Scope::rail) return;
  if (mutated(Mutant::health_plan_apart)) return;
  const bool carries = verdict.kind == DownCause::lossy || verdict.kind == DownCause::tampered;
  const bool here = verdict.faulty.host == engine_.job().host_of(engine_.self());
  const auto rail = nics_.rail_of(verdict.faulty.host, verdict.faulty.nic);
  if (!rail || (!here && verdict.scope == Scope::nic)) return;
  for (size_t nic = 0; nic < own_nic_count(); ++nic) {
    if (nics_.rail_of(engine_.self(), nic_id(nic)) == rail) blamed_[nic] = !carries;
  }
  on_change();
}

void NicHealth::on_end(Rank peer) {
  if (decision_) decision_->map.on_end(peer, clock_.now());
  reports_.erase(peer);
  on_change();
}

// Tells the rank that decides the changes.
void NicHealth::report(Rank decides, TimeNs now) {
  NicReport report = report_of(filter_.reported(now));
  const bool differs = report != told_;
  // A rank that has said or heard anything may know more, or less, than another one that decides.
  must_tell_ = must_tell_ || differs || !rates_.empty();
  if (!differs && (decides == decides_ || !must_tell_)) return;
  told_ = std::move(report);
  if (decides != engine_.self()) {
    engine_.link(decides)->send_notice(make_notice(NoticeKind::nic_report, encode(told_)));
    return;
  }
  begin_to_decide(now);
  const Status taken =
      decision_->map.on_report(engine_.self(), engine_.job().host_of(engine_.self()), told_, now);
  R2CCL_CHECK(taken.ok());
}

// Goes on from the table that this rank has heard last, and the reports that have come since.
void NicHealth::begin_to_decide(TimeNs now) {
  if (decision_) return;
  decision_.emplace(Decision{HealthMap(nics_.all_rails(), rates_), {}});
  for (const auto& [rank, report] : std::exchange(reports_, {})) {
    const Status taken = decision_->map.on_report(rank, engine_.job().host_of(rank), report, now);
    if (!taken.ok()) refuse(rank, taken);
    decision_->unanswered.push_back(rank);
  }
}

uint32_t NicHealth::hosts_per_part() const {
  size_t most = 1;
  for (const auto& rails : nics_.all_rails()) most = std::max(most, rails.size());
  return static_cast<uint32_t>(std::max(kTableRatesMax / most, size_t{1}));
}

uint32_t NicHealth::parts() const {
  const uint32_t hosts = hosts_per_part();
  return (static_cast<uint32_t>(nics_.hosts()) + hosts - 1) / hosts;
}

std::span<const RailRate> NicHealth::part_of(const RateTable& table, uint32_t part) const {
  const uint32_t hosts = hosts_per_part();
  const auto from = std::ranges::lower_bound(table, part * hosts, {}, &RailRate::host);
  const auto to = std::ranges::lower_bound(table, (part + 1) * hosts, {}, &RailRate::host);
  return {from, to};
}

void NicHealth::send_rates(Rank to, uint32_t part) {
  Link* link = engine_.link(to);
  if (link == nullptr || has_gone(to)) return;
  std::vector<std::byte> body;
  ByteWriter(body).put(part);
  const std::span<const RailRate> rates = part_of(decision_->map.table(), part);
  ByteWriter(body).put_bytes(encode(RateTable(rates.begin(), rates.end())));
  link->send_notice(make_notice(NoticeKind::nic_rates, part, body));
}

// Sends a changed table to all ranks, and the table as it is to ranks that may have another one.
void NicHealth::decide(TimeNs now) {
  const bool takes_over = decides_ != engine_.self();
  // A rank that has lost the deciding rank earlier has reported to this one.
  if (takes_over && !(rates_.empty() && reports_.empty())) begin_to_decide(now);
  if (!decision_) return;
  const bool changed = decision_->map.take(now).has_value();
  const bool settled = decision_->map.next_timeout() > now + HealthMap::kSettle;
  const std::vector<Rank> behind =
      settled ? std::exchange(decision_->unanswered, {}) : std::vector<Rank>();
  if (!changed && !takes_over && behind.empty()) return;
  for (uint32_t part = 0; part < parts(); ++part) {
    const bool differs =
        !std::ranges::equal(part_of(rates_, part), part_of(decision_->map.table(), part));
    if (takes_over || differs) {
      for (size_t i = 0; i < engine_.rank_count(); ++i)
        send_rates(Rank(static_cast<int32_t>(i)), part);
    } else {
      for (const Rank rank : behind) send_rates(rank, part);
    }
  }
  if (changed || takes_over) apply(decision_->map.table());
}

void NicHealth::apply(RateTable rates) {
  if (rates == rates_) return;
  rates_ = std::move(rates);
  ++version_;
  changed_ = true;  // the blame of a NIC follows the others' rates
}

// A rank that leaves still decides for the others, and knows who does.
void NicHealth::progress(TimeNs now, bool leaving) {
  changed_ = changed_ || engine_.nics().drained() != drained_;
  drained_ = engine_.nics().drained();
  const Rank decides = deciding_rank(engine_, ended_);
  if (decides != engine_.self()) {
    decision_.reset();
  }
  if (!leaving) {
    if (std::exchange(changed_, false)) filter_.observe(momentary(), now);
    watch_rates(now);
    report(decides, now);
  }
  if (decides == engine_.self()) decide(now);
  decides_ = decides;
  if (now - windows_.begun_at() >= RateWatch::kWindow) windows_.skip(now);
  next_ = leaving ? kNever : filter_.next_timeout();
  if (decision_) next_ = std::min(next_, decision_->map.next_timeout());
  if (changed_ && !leaving) next_ = now;
  look_at_ = std::min(next_, windows_.begun_at() + RateWatch::kWindow);
}

void NicHealth::refuse(Rank peer, const Status& why) {
  ++refused_;
  R2CCL_LOG(warn, "%s sends %s", describe(peer, engine_.job().info(peer)).c_str(),
            why.message().c_str());
}

void NicHealth::on_report(Rank peer, std::span<const std::byte> body) {
  auto report = decode_nic_report(body);
  if (!report.ok()) return refuse(peer, report.status());
  if (has_gone(peer)) return;
  for (const NicState& nic : report.value().nics) {
    if (nics_.uses(peer, nic.rail) || mutated(Mutant::health_any_rank)) continue;
    return refuse(peer, {Code::remote, "a report of a NIC that it does not use"});
  }
  wake();
  if (!decision_) {
    reports_[peer] = std::move(report).value();
    if (decides_ == engine_.self()) begin_to_decide(clock_.now());
    return;
  }
  const uint32_t host = engine_.job().host_of(peer);
  const Status taken = decision_->map.on_report(peer, host, report.value(), clock_.now());
  if (!taken.ok()) return refuse(peer, taken);
  if (std::ranges::find(decision_->unanswered, peer) == decision_->unanswered.end())
    decision_->unanswered.push_back(peer);
}

// A rank that this one does not know to decide may do so already. It hears from this rank when this
// rank knows it too, and answers with its table.
void NicHealth::on_rates(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const auto part = in.get<uint32_t>();
  const auto rates = decode_rate_table(in.get_bytes(in.remaining()));
  if (in.bad()) return refuse(peer, {Code::remote, "a table of NICs' rates without its part"});
  if (!rates.ok()) return refuse(peer, rates.status());
  const auto is_of_part = [&, hosts = hosts_per_part()](const RailRate& nic) {
    return nic.host / hosts == part;
  };
  if (part >= parts() || !std::ranges::all_of(rates.value(), is_of_part)) {
    return refuse(peer, {Code::remote, "a table of NICs' rates of other hosts than it says"});
  }
  if (peer != deciding_rank(engine_, ended_)) {
    must_tell_ = true;
    return;
  }
  RateTable all;
  for (uint32_t each = 0; each < parts(); ++each) {
    const std::span<const RailRate> known = part_of(each == part ? rates.value() : rates_, each);
    all.insert(all.end(), known.begin(), known.end());
  }
  apply(std::move(all));
  wake();
}

// Needs no timer: a host that sends has turns.
void NicHealth::watch_rates(TimeNs now) {
  const TimeNs length = now - windows_.begun_at();
  if (length < RateWatch::kWindow || own_nic_count() < 2) return;
  rate_watch_.on_window(windows_.take(now), length);
}

void NicHealth::check_invariants() const {
  R2CCL_CHECK(look_at_ <= next_);
  R2CCL_CHECK(decides_ <= engine_.self());
  R2CCL_CHECK(reports_.size() <= engine_.rank_count());
  if (decision_) decision_->map.check_invariants();
}

}  // namespace r2ccl
