#include "runtime/health/nic_health.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "runtime/health/election.h"

namespace r2ccl {
namespace {

NicId nic_id(size_t index) {
  return NicId(static_cast<uint16_t>(index));
}

}  // namespace

NicHealth::NicHealth(ProgressEngine& engine, const HostNics& nics, const Clock& clock,
                     const std::vector<bool>& ended)
    : engine_(engine),
      clock_(clock),
      ended_(ended),
      nics_(nics),
      blamed_(engine.job().own_info().nics.size()),
      filter_(HostReach(own_nics(), NicReach{})),
      rate_watch_(own_nics()),
      windows_(engine, nics_, clock.now()),
      decides_(engine.self()) {
  told_ = report_of(filter_.reported(clock.now()));
}

std::optional<NicRate> NicHealth::rate_of(Rank rank, const std::string& nic) const {
  const uint32_t host = engine_.job().host_of(rank);
  const std::optional<uint16_t> rail = nics_.rail_of(host, nic);
  const auto found = std::ranges::find_if(
      rates_, [&](const RailRate& each) { return each.host == host && each.rail == rail; });
  if (found == rates_.end()) return std::nullopt;
  return found->rate;
}

// Returns whether no lower rank of this host that lives uses the NIC.
bool NicHealth::speaks_for(NicId nic) const {
  const std::optional<uint16_t> rail = nics_.rail_of(engine_.self(), nic);
  if (!rail) return false;
  for (const Rank rank : engine_.job().ranks_of(engine_.job().host_of(engine_.self()))) {
    if (rank == engine_.self()) return true;
    if (!ended_[static_cast<size_t>(rank.value())] && nics_.uses(rank, *rail)) return false;
  }
  return true;
}

// Returns how many of the other hosts the NIC reaches. It reaches a host that it reaches by one of
// its paths to the ranks there. Only paths within a rail count: a NIC without a counterpart is
// paired with one of another rail, of which the reports of that rail tell.
NicReach NicHealth::reach_of_nic(NicId nic) {
  enum class Host : uint8_t { unknown, missed, reached };
  const JobMap& job = engine_.job();
  const uint32_t own_host = job.host_of(engine_.self());
  const std::optional<uint16_t> rail = nics_.rail_of(engine_.self(), nic);
  std::vector<Host> hosts(job.hosts(), Host::unknown);
  for (size_t rank = 0; rank < engine_.rank_count(); ++rank) {
    const Rank peer(static_cast<int32_t>(rank));
    const Link* link = engine_.link(peer);
    if (link == nullptr || job.host_of(peer) == own_host) continue;
    if (ended_[rank] || link->peer_ended() || link->peer_said_goodbye()) continue;
    Host& host = hosts[job.host_of(peer)];
    for (const Path* path : link->paths()) {
      const PathSpec& spec = path->spec;
      if (spec.control_only || spec.local_nic != nic || path->at_rest()) continue;
      if (nics_.rail_of(peer, spec.remote_nic) != rail) continue;
      const PathPhase phase = path->state.phase();
      const bool up = phase == PathPhase::up || phase == PathPhase::suspect;
      host = std::max(host, up ? Host::reached : Host::missed);
    }
  }
  const auto missed = static_cast<uint32_t>(std::ranges::count(hosts, Host::missed));
  blamed_[nic.value()] = blamed_[nic.value()] && missed > 0;
  // The paths that carry nothing, or only small packets, may be up.
  if (blamed_[nic.value()]) return {0, missed};
  return reach_of(static_cast<uint32_t>(std::ranges::count(hosts, Host::reached)), missed);
}

HostReach NicHealth::momentary() {
  HostReach reach(own_nics());
  for (size_t i = 0; i < own_nics(); ++i) {
    const NicId nic = nic_id(i);
    if (!drained_.contains(nic)) reach[i] = reach_of_nic(nic);
  }
  return reach;
}

// Returns the state of the NICs that this rank speaks for, and those of them that are slow, by
// their rails at both ends.
NicReport NicHealth::report_of(const HostReach& reach) const {
  NicReport report;
  for (size_t i = 0; i < own_nics(); ++i) {
    if (!speaks_for(nic_id(i))) continue;
    report.nics.push_back({*nics_.rail_of(engine_.self(), nic_id(i)), reach[i]});
  }
  std::ranges::sort(report.nics, {}, &NicState::rail);
  for (SlowNic slow : rate_watch_.slow()) {
    if (!speaks_for(nic_id(slow.nic))) continue;
    slow.nic = *nics_.rail_of(engine_.self(), nic_id(slow.nic));
    report.slow.push_back(slow);
  }
  return report;
}

void NicHealth::doubt(NicId nic) {
  const auto& own = engine_.job().own_info().nics;
  if (nic.value() >= own.size() || rate_of(engine_.self(), own[nic.value()].name)) return;
  HostReach first = filter_.reported(clock_.now());
  if (!first[nic.value()] || !first[nic.value()]->whole()) return;
  first[nic.value()] = NicReach{0, 1};
  filter_ = ReachFilter(std::move(first));
  told_ = report_of(filter_.reported(clock_.now()));
  on_change();
}

void NicHealth::on_verdict(const Verdict& verdict) {
  const bool sure = verdict.scope == Scope::nic || verdict.scope == Scope::rail;
  const bool carries = verdict.kind == DownCause::lossy || verdict.kind == DownCause::tampered;
  if (!sure || carries || mutated(Mutant::health_plan_apart)) return;
  const auto& own = engine_.job().own_info().nics;
  for (size_t nic = 0; nic < own.size(); ++nic) {
    const bool here = verdict.faulty.host == engine_.job().host_of(engine_.self());
    if ((here || verdict.scope == Scope::rail) && own[nic].name == verdict.faulty.nic) {
      blamed_[nic] = true;
    }
  }
  on_change();
}

HealthMap& NicHealth::map() {
  if (!map_) map_.emplace(nics_.all_rails(), rates_);
  return *map_;
}

// Tells the rank that decides the changes. A rank that takes over hears all that differ from whole
// NICs.
void NicHealth::report(Rank decides, TimeNs now) {
  NicReport report = report_of(filter_.reported(now));
  const bool resend = has_told_ && decides != decides_;
  if (report == told_ && !resend) return;
  told_ = std::move(report);
  has_told_ = true;
  if (decides != engine_.self()) {
    engine_.link(decides)->send_notice(make_notice(NoticeKind::nic_report, encode(told_)));
    return;
  }
  const Status known = map().on_report(engine_.job().host_of(engine_.self()), told_, now);
  R2CCL_CHECK(known.ok());
}

void NicHealth::apply(const RateTable& rates) {
  if (rates == rates_) return;
  rates_ = rates;
  ++version_;
}

void NicHealth::decide(TimeNs now) {
  const bool takes_over = decides_ != engine_.self() && (map_ || !rates_.empty());
  std::optional<RateTable> rates = map_ ? map_->take(now) : std::nullopt;
  if (!rates && takes_over) rates = map().table();
  if (!rates) return;
  const Notice notice = make_notice(NoticeKind::nic_rates, encode(*rates));
  for (size_t rank = 0; rank < engine_.rank_count(); ++rank) {
    Link* link = engine_.link(Rank(static_cast<int32_t>(rank)));
    if (link != nullptr && !ended_[rank] && !link->peer_ended()) link->send_notice(notice);
  }
  apply(*rates);
}

void NicHealth::progress(TimeNs now, bool stopped) {
  changed_ = changed_ || engine_.nics().drained() != drained_;
  drained_ = engine_.nics().drained();
  // Also of a rank that measures nothing.
  if (!stopped) {
    const Rank decides = deciding_rank(engine_, ended_);
    if (changed_) filter_.observe(momentary(), now);
    watch_rates(now);
    report(decides, now);
    if (decides == engine_.self()) decide(now);
    if (early_ && early_->first == decides) apply(std::exchange(early_, std::nullopt)->second);
    decides_ = decides;
    changed_ = false;
  }
  if (now - windows_.begun_at() >= RateWatch::kWindow) windows_.skip(now);
  next_ = stopped ? kNever : filter_.next_timeout();
  if (!stopped && map_ && decides_ == engine_.self()) next_ = std::min(next_, map_->next_timeout());
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
  for (const NicState& nic : report.value().nics) {
    if (nics_.uses(peer, nic.rail) || mutated(Mutant::health_any_rank)) continue;
    return refuse(peer, {Code::remote, "a report of a NIC that it does not use"});
  }
  const uint32_t host = engine_.job().host_of(peer);
  const Status taken = map().on_report(host, report.value(), clock_.now());
  if (!taken.ok()) return refuse(peer, taken);
  wake();
}

// A rank may learn later than its peers which rank decides.
void NicHealth::on_rates(Rank peer, std::span<const std::byte> body) {
  auto rates = decode_rate_table(body);
  if (!rates.ok()) return refuse(peer, rates.status());
  if (peer == deciding_rank(engine_, ended_)) return apply(rates.value());
  early_.emplace(peer, std::move(rates).value());
  wake();
}

// Needs no timer: a host that sends has turns.
void NicHealth::watch_rates(TimeNs now) {
  const TimeNs length = now - windows_.begun_at();
  if (length < RateWatch::kWindow || own_nics() < 2) return;
  rate_watch_.on_window(windows_.take(now), length);
}

void NicHealth::check_invariants() const {
  R2CCL_CHECK(look_at_ <= next_);
  R2CCL_CHECK(decides_ <= engine_.self());
  if (map_) map_->check_invariants();
}

}  // namespace r2ccl
