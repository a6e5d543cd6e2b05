#include "runtime/views/rank_views.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/link/notice.h"
#include "runtime/peers/nic_match.h"

namespace r2ccl {
namespace {

// Returns the rail of each NIC of each host's lowest rank.
std::vector<std::vector<uint16_t>> rails_of(const Members& members, const HostMap& hosts) {
  std::vector<const RankInfo*> leaders;
  for (size_t host = 0; host < hosts.hosts(); ++host) {
    leaders.push_back(&members.info(hosts.leader(host)));
  }
  return match_rails(leaders);
}

// Returns the rates of each host by `first`, or where that has none those of whole NICs.
std::vector<HostRates> first_rates(const std::vector<std::vector<uint16_t>>& rails,
                                   const View& first) {
  size_t count = 0;
  for (const auto& own : rails) count = std::max(count, own.size());
  std::vector<HostRates> rates;
  for (size_t host = 0; host < rails.size(); ++host) {
    const bool known = !first.empty() && first.hosts().size() == rails.size() &&
                       first.hosts()[host].size() == rails[host].size();
    HostRates& by_rail = rates.emplace_back(count, NicRate{0, 0});
    for (size_t nic = 0; nic < rails[host].size(); ++nic) {
      by_rail[rails[host][nic]] = known ? first.hosts()[host][nic] : NicRate{};
    }
  }
  return rates;
}

// Returns what the hosts report as long as nothing differs from the first rates.
std::vector<HostReport> first_reports(const std::vector<std::vector<uint16_t>>& rails,
                                      const std::vector<HostRates>& rates) {
  std::vector<HostReport> reports;
  for (size_t host = 0; host < rails.size(); ++host) {
    HostReach& reach = reports.emplace_back().reach;
    reach.resize(rates[host].size());
    for (const uint16_t rail : rails[host]) {
      const NicRate& nic = rates[host][rail];
      reach[rail] = std::min(nic.send, nic.receive) > 0 ? NicReach{} : NicReach{0, 1};
    }
  }
  return reports;
}

ViewRecord first_record(const std::vector<HostRates>& rates) {
  Result<View> view = View::of(rates);
  return {0, 0, view.ok() ? std::move(view).value() : View()};
}

}  // namespace

RankViews::RankViews(Members& members, Operations& operations, const HostMap& hosts, View first,
                     const Clock& clock)
    : members_(members),
      operations_(operations),
      clock_(clock),
      hosts_(hosts),
      first_(std::move(first)),
      made_at_(clock.now()),
      rails_(rails_of(members, hosts)),
      gone_(members.count()),
      agreement_(members.self(), static_cast<int32_t>(members.count()),
                 first_record(first_rates(rails_, first_))),
      filter_({}),
      told_to_(0) {
  operations.executor().set_views(&agreement_);
  // A rank that is not its host's lowest may have other NICs, and reports none.
  if (speaks_for_host()) {
    told_ = first_reports(rails_, first_rates(rails_, first_))[own_host()];
  }
  filter_ = ReachFilter(told_.reach);
  rate_watch_ = RateWatch(nics());
  if (!first_.empty()) driver();
  begin_window(made_at_);
}

RankViews::~RankViews() {
  operations_.executor().set_views(nullptr);
}

Rank RankViews::coordinator() const {
  const auto living = std::ranges::find(gone_, false);
  return Rank(static_cast<int32_t>(living - gone_.begin()));
}

uint32_t RankViews::own_host() const {
  return hosts_.host_of(members_.self());
}

bool RankViews::speaks_for_host() const {
  return hosts_.leader(own_host()) == members_.self();
}

const std::vector<uint16_t>& RankViews::own_rails() const {
  static const std::vector<uint16_t> none;
  return speaks_for_host() ? rails_[own_host()] : none;
}

// Returns whether the path goes by this NIC to one of the same rail. A NIC without a counterpart is
// paired with one of another rail, of which the reports of that rail tell.
bool RankViews::is_on_rail(const PathSpec& path, NicId nic, uint32_t peer_host) const {
  if (path.control_only || path.local_nic != nic) return false;
  const std::vector<uint16_t>& rails = rails_[peer_host];
  const size_t remote = path.remote_nic.value();
  return remote < rails.size() && rails[remote] == own_rails()[nic.value()];
}

// Returns how many of the other hosts the NIC reaches. It reaches a host that it reaches by one of
// its paths to the ranks there.
NicReach RankViews::reach_of_nic(NicId nic) const {
  enum class Host : uint8_t { unknown, missed, reached };
  std::vector<Host> hosts(hosts_.hosts(), Host::unknown);
  for (size_t rank = 0; rank < gone_.size(); ++rank) {
    const Link* link = members_.link(Rank(static_cast<int32_t>(rank)));
    if (link == nullptr || link->peer_ended() || gone_[rank]) continue;
    const uint32_t peer_host = hosts_.host_of(Rank(static_cast<int32_t>(rank)));
    if (peer_host == own_host()) continue;
    Host& host = hosts[peer_host];
    for (const Path* path : link->paths()) {
      if (!is_on_rail(path->spec, nic, peer_host) || path->at_rest()) continue;
      const PathPhase phase = path->state.phase();
      const bool up = phase == PathPhase::up || phase == PathPhase::suspect;
      host = std::max(host, up ? Host::reached : Host::missed);
    }
  }
  return reach_of(static_cast<uint32_t>(std::ranges::count(hosts, Host::reached)),
                  static_cast<uint32_t>(std::ranges::count(hosts, Host::missed)));
}

HostReach RankViews::momentary() const {
  HostReach reach(told_.reach.size());
  for (size_t i = 0; i < nics(); ++i) {
    const NicId nic(static_cast<uint16_t>(i));
    if (!members_.nics().drained().contains(nic)) reach[own_rails()[i]] = reach_of_nic(nic);
  }
  return reach;
}

// Returns the slow NICs by their rails, at both ends. A peer that is not its host's lowest rank may
// have NICs that the view does not know.
std::vector<SlowNic> RankViews::slow_by_rail() const {
  std::vector<SlowNic> all = rate_watch_.slow();
  for (SlowNic& slow : all) {
    slow.nic = own_rails()[slow.nic];
    if (slow.host == kSeveralHosts) continue;
    const std::vector<uint16_t>& rails = rails_[slow.host];
    if (slow.peer_nic < rails.size()) slow.peer_nic = rails[slow.peer_nic];
  }
  return all;
}

void RankViews::watch_nics(TimeNs now) {
  if (stopped_ || !speaks_for_host()) return;
  if (std::exchange(changed_, false)) filter_.observe(momentary(), now);
  watch_rates(now);
  report(now);
}

// Most ranks get no report, and the hosts differ in few jobs.
ViewDriver& RankViews::driver() {
  if (!driver_) {
    std::vector<HostRates> rates = first_rates(rails_, first_);
    std::vector<HostReport> reports = first_reports(rails_, rates);
    driver_.emplace(std::move(rates), std::move(reports), made_at_);
  }
  return *driver_;
}

// Tells the coordinator the changes.
void RankViews::report(TimeNs now) {
  HostReport report{filter_.reported(now), slow_by_rail()};
  const Rank to = coordinator();
  if (report == told_ && to == told_to_) return;
  told_ = std::move(report);
  told_to_ = to;
  if (to != members_.self()) {
    return members_.tell(to, NoticeKind::host_report, encode(told_));
  }
  const Status known = driver().on_report(own_host(), told_, now);
  R2CCL_CHECK(known.ok());
}

void RankViews::begin_window(TimeNs now) {
  window_at_ = now;
  totals_.clear();
  for (size_t nic = 0; nic < nics(); ++nic) {
    const NicQueue& queue = members_.nics().queue(NicId(static_cast<uint16_t>(nic)));
    totals_.push_back({queue.delivered(), queue.idle(now)});
  }
  sent_.clear();
  for (size_t rank = 0; rank < gone_.size(); ++rank) {
    const Link* link = members_.link(Rank(static_cast<int32_t>(rank)));
    if (link == nullptr) continue;
    for (const Path* path : link->paths()) {
      if (!path->spec.relay) sent_.push_back(path->total_bytes_sent());
    }
  }
}

// Returns the work of each NIC since the window began. A NIC whose bytes are mostly those of
// other communicators counts as idle: their receivers are not known here.
std::vector<NicWindow> RankViews::take_window(TimeNs now) const {
  constexpr double kMost = 0.9;
  std::vector<NicWindow> windows(nics());
  std::vector<uint64_t> sent(windows.size());
  std::vector<uint64_t> most(windows.size());
  size_t index = 0;
  for (size_t rank = 0; rank < gone_.size(); ++rank) {
    const Link* link = members_.link(Rank(static_cast<int32_t>(rank)));
    if (link == nullptr) continue;
    for (const Path* path : link->paths()) {
      if (path->spec.relay) continue;
      const uint64_t bytes = path->total_bytes_sent() - sent_[index++];
      const size_t nic = path->spec.local_nic.value();
      if (path->spec.control_only || nic >= windows.size()) continue;
      sent[nic] += bytes;
      if (bytes <= most[nic]) continue;
      most[nic] = bytes;
      windows[nic].host = hosts_.host_of(Rank(static_cast<int32_t>(rank)));
      windows[nic].nic = path->spec.remote_nic.value();
    }
  }
  const auto is_most = [](uint64_t part, uint64_t of) {
    return static_cast<double>(part) >= kMost * static_cast<double>(of);
  };
  for (size_t nic = 0; nic < windows.size(); ++nic) {
    const NicQueue& queue = members_.nics().queue(NicId(static_cast<uint16_t>(nic)));
    NicWindow& window = windows[nic];
    window.bytes = queue.delivered() - totals_[nic].delivered;
    const TimeNs idle = queue.idle(now) - totals_[nic].idle;
    if (is_most(sent[nic], window.bytes)) window.busy = now - window_at_ - idle;
    if (!is_most(most[nic], sent[nic])) window.host = kSeveralHosts;
  }
  return windows;
}

// Needs no timer: a host that sends has turns.
void RankViews::watch_rates(TimeNs now) {
  const TimeNs length = now - window_at_;
  if (length < RateWatch::kWindow || nics() < 2) return;
  rate_watch_.on_window(take_window(now), length);
  begin_window(now);
}

void RankViews::propose(TimeNs now) {
  if (stopped_ || !driver_ || coordinator() != members_.self()) return;
  const std::optional<View> view = driver_->take(now);
  if (!view) return;
  ViewAnswer largest;
  largest.record = {0, 0, *view};
  constexpr size_t kHeader = 8;
  if (encode(largest).size() + kHeader > limits::kNoticeBytesMax) {
    R2CCL_LOG(warn, "too many hosts differ for one view: the plans stay as they are");
    return;
  }
  agreement_.propose(*view, now);
}

void RankViews::send(const ViewSend& send) {
  if (members_.link(send.to)->peer_ended()) return;
  members_.tell(send.to, NoticeKind::view, send.message.index(), encode(send.message));
}

void RankViews::run_agreement(TimeNs now) {
  if (now >= agreement_.next_timeout()) agreement_.progress(now);
  if (agreement_.has_sends()) {
    for (const ViewSend& each : agreement_.take_sends()) send(each);
  }
  if (agreement_.latest().version != told_version_) {
    told_version_ = agreement_.latest().version;
    tell_view(agreement_.latest());
  }
  // A decision lets collectives begin that have waited for it.
  operations_.executor().resume();
}

void RankViews::look(TimeNs now) {
  changed_ = changed_ || members_.nics().drained() != drained_;
  drained_ = members_.nics().drained();
  watch_nics(now);
  propose(now);
  changed_ = false;
  // Also of a rank that measures nothing.
  if (now - window_at_ >= RateWatch::kWindow) window_at_ = now;
  next_ = stopped_ ? kNever : filter_.next_timeout();
  const bool decides = !stopped_ && driver_ && coordinator() == members_.self();
  if (decides) next_ = std::min(next_, driver_->next_timeout());
  run_agreement(now);
  next_ = std::min(next_, agreement_.next_timeout());
  look_at_ = std::min(next_, window_at_ + RateWatch::kWindow);
}

void RankViews::on_gone(Rank rank, bool in_order) {
  const auto index = static_cast<size_t>(rank.value());
  if (gone_[index]) return;
  gone_[index] = true;
  agreement_.on_gone(rank, in_order, clock_.now());
  wake();
}

void RankViews::refuse(Rank peer, const Status& why) {
  ++refused_;
  R2CCL_LOG(warn, "%s sends %s", members_.name_of(peer).c_str(), why.message().c_str());
}

void RankViews::on_message(Rank peer, std::span<const std::byte> body) {
  const auto message = decode_view_message(body, hosts_.hosts());
  if (!message.ok()) return refuse(peer, message.status());
  // A question binds this rank until the one that asks has decided. So only the rank that decides
  // may ask. It asks again until it gets an answer, so one that learns earlier that it is that rank
  // waits for the others to learn it too.
  if (std::holds_alternative<ViewAsk>(message.value()) && peer != coordinator()) return;
  const Status taken = agreement_.on_message(peer, message.value(), clock_.now());
  if (!taken.ok()) refuse(peer, taken);
  wake();
}

void RankViews::on_report(Rank peer, std::span<const std::byte> body) {
  const auto report = decode_host_report(body);
  if (!report.ok()) return refuse(peer, report.status());
  if (hosts_.leader(hosts_.host_of(peer)) != peer) {
    return refuse(peer, {Code::remote, "a report of a host that another rank speaks for"});
  }
  const Status taken = driver().on_report(hosts_.host_of(peer), report.value(), clock_.now());
  if (!taken.ok()) refuse(peer, taken);
  wake();
}

View RankViews::view_for(const View& view, std::span<const Rank> ranks) const {
  std::vector<uint32_t> met;
  std::vector<HostRates> rates;
  for (const Rank rank : ranks) {
    const uint32_t host = hosts_.host_of(rank);
    if (view.empty() || std::ranges::find(met, host) != met.end()) continue;
    met.push_back(host);
    HostRates& by_nic = rates.emplace_back();
    const HostRates& by_rail = view.hosts()[host];
    for (const uint16_t rail : rails_[host]) {
      if (rail >= by_rail.size()) return {};  // the view of another rank, which is at fault
      by_nic.push_back(by_rail[rail]);
    }
  }
  Result<View> view_of_ranks = View::of(std::move(rates));
  return view_of_ranks.ok() ? std::move(view_of_ranks).value() : View();
}

std::string RankViews::describe(const View& view) const {
  if (view.empty()) return "all hosts have equal NICs";
  std::string words;
  for (size_t host = 0; host < view.hosts().size(); ++host) {
    const HostRates& rates = view.hosts()[host];
    double nics = 0;
    for (const NicRate& nic : rates) nics += std::min(nic.send, nic.receive) / double{kWholeNic};
    if (nics >= static_cast<double>(rates.size())) continue;
    std::array<char, 32> left;
    std::snprintf(left.data(), left.size(), "%.4g", nics);
    words += (words.empty() ? "" : ", ") + members_.info(hosts_.leader(host)).host_name + " has " +
             left.data() + " of " + std::to_string(rates.size()) + " NICs";
  }
  return words.empty() ? "all NICs are whole" : words;
}

// One rank tells it for all.
void RankViews::tell_view(const ViewRecord& record) const {
  if (coordinator() != members_.self()) return;
  R2CCL_LOG(info, "view %llu: %s; plans follow from collective %llu on",
            static_cast<unsigned long long>(record.version), describe(record.view).c_str(),
            static_cast<unsigned long long>(record.start));
}

void RankViews::check_invariants() const {
  agreement_.check_invariants();
}

}  // namespace r2ccl
