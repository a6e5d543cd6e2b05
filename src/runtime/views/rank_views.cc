#include "runtime/views/rank_views.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

bool is_slow(const NicRate& nic) {
  return (nic.send > 0 && nic.send < kWholeNic) || (nic.receive > 0 && nic.receive < kWholeNic);
}

// Returns the rates of each host by `first`, or where that has none those of whole NICs.
std::vector<HostRates> rates_of(const HostNics& nics, const View& first) {
  size_t count = 0;
  for (size_t host = 0; host < nics.hosts(); ++host) {
    count = std::max(count, nics.rails(host).size());
  }
  std::vector<HostRates> rates;
  for (size_t host = 0; host < nics.hosts(); ++host) {
    const std::vector<uint16_t>& rails = nics.rails(host);
    const bool known = !first.empty() && first.hosts().size() == nics.hosts() &&
                       first.hosts()[host].size() == rails.size();
    HostRates& by_rail = rates.emplace_back(count, NicRate{0, 0});
    for (size_t nic = 0; nic < rails.size(); ++nic) {
      by_rail[rails[nic]] = known ? first.hosts()[host][nic] : NicRate{};
    }
  }
  return rates;
}

bool any_slow(const std::vector<HostRates>& hosts) {
  return std::ranges::any_of(
      hosts, [](const HostRates& host) { return std::ranges::any_of(host, is_slow); });
}

ViewRecord first_record(const std::vector<HostRates>& rates) {
  Result<View> view = View::of(rates);
  return {0, 0, view.ok() ? std::move(view).value() : View()};
}

}  // namespace

RankViews::RankViews(Members& members, Operations& operations, const HostMap& hosts, View first,
                     NicHealth& health, const Clock& clock)
    : members_(members),
      operations_(operations),
      health_(health),
      clock_(clock),
      hosts_(hosts),
      first_(std::move(first)),
      nics_(hosts, members.infos()),
      first_rates_(rates_of(nics_, first_)),
      first_until_(any_slow(first_rates_) && !first_.empty() ? clock.now() + kFirstRates : 0),
      gone_(members.count()),
      agreement_(members.self(), static_cast<int32_t>(members.count()),
                 first_record(first_rates_)) {
  operations.executor().set_views(&agreement_);
  if (!first_.empty()) doubt_lost();
  health_.on_change();  // it may have stood still while all communicators left
  due_ = !first_.empty() || !health_.rates().empty();
}

RankViews::~RankViews() {
  operations_.executor().set_views(nullptr);
}

Rank RankViews::coordinator() const {
  const auto living = std::ranges::find(gone_, false);
  return Rank(static_cast<int32_t>(living - gone_.begin()));
}

// The first view may be older than the job's knowledge of a NIC.
void RankViews::doubt_lost() const {
  const uint32_t host = hosts_.host_of(members_.self());
  const auto& own = members_.info(members_.self()).nics;
  for (size_t nic = 0; nic < own.size(); ++nic) {
    const NicId id(static_cast<uint16_t>(nic));
    const std::optional<uint16_t> rail = nics_.rail_of(members_.self(), id);
    if (rail && first_rates_[host][*rail].send == 0) health_.doubt(id);
  }
}

// Returns how much the NIC can carry: as the job knows it, or as the first view has it.
NicRate RankViews::rate(size_t host, size_t nic, TimeNs now) const {
  const NicRate first = first_rates_[host][nics_.rails(host)[nic]];
  const uint32_t job_host = members_.job_host_of(hosts_.leader(host));
  const std::optional<NicRate> known = health_.rate_of(job_host, nics_.names(host)[nic]);
  if (known && known->send == 0) return *known;
  if (!is_slow(first)) return known.value_or(first);
  const NicRate rate = known.value_or(NicRate{});
  if (now >= first_until_) return rate;
  return {std::min(rate.send, first.send), std::min(rate.receive, first.receive)};
}

std::vector<HostRates> RankViews::rates(TimeNs now) const {
  std::vector<HostRates> all;
  for (size_t host = 0; host < nics_.hosts(); ++host) {
    HostRates& rates = all.emplace_back(first_rates_[host].size(), NicRate{0, 0});
    for (size_t nic = 0; nic < nics_.rails(host).size(); ++nic) {
      rates[nics_.rails(host)[nic]] = rate(host, nic, now);
    }
  }
  return all;
}

// Where some host can send or receive nothing, no plan can help it, and all wait for it as before.
void RankViews::propose(TimeNs now) {
  if (stopped_ || coordinator() != members_.self()) return;
  const Result<View> view = View::of(rates(now));
  if (!view.ok()) return;
  ViewAnswer largest;
  largest.record = {0, 0, view.value()};
  constexpr size_t kHeader = 8;
  if (encode(largest).size() + kHeader > limits::kNoticeBytesMax) {
    R2CCL_LOG(warn, "too many hosts differ for one view: the plans stay as they are");
    return;
  }
  agreement_.propose(view.value(), now);
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
  const bool first_over = first_until_ > 0 && now >= first_until_ && !first_over_;
  first_over_ = first_over_ || first_over;
  due_ = due_ || first_over || health_.version() != seen_version_;
  seen_version_ = health_.version();
  if (std::exchange(due_, false)) propose(now);
  run_agreement(now);
  next_ = agreement_.next_timeout();
  if (first_until_ > 0 && !first_over_ && !stopped_) next_ = std::min(next_, first_until_);
}

void RankViews::on_gone(Rank rank, bool in_order) {
  const auto index = static_cast<size_t>(rank.value());
  if (gone_[index]) return;
  gone_[index] = true;
  agreement_.on_gone(rank, in_order, clock_.now());
  due_ = true;  // this rank may be the one that proposes now
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

View RankViews::view_for(const View& view, std::span<const Rank> ranks) const {
  if (view.empty()) return {};
  std::vector<uint32_t> met;
  std::vector<HostRates> rates;
  std::vector<std::vector<bool>> taken;  // by host of `met` and rail
  for (const Rank rank : ranks) {
    const uint32_t host = hosts_.host_of(rank);
    const HostRates& by_rail = view.hosts()[host];
    const auto place = static_cast<size_t>(std::ranges::find(met, host) - met.begin());
    if (place == met.size()) {
      met.push_back(host);
      rates.emplace_back();
      taken.emplace_back(by_rail.size());
    }
    for (size_t nic = 0; nic < members_.info(rank).nics.size(); ++nic) {
      const auto rail = nics_.rail_of(rank, NicId(static_cast<uint16_t>(nic)));
      if (!rail) continue;
      if (*rail >= by_rail.size()) return {};  // the view of another rank, which is at fault
      if (taken[place][*rail]) continue;
      taken[place][*rail] = true;
      rates[place].push_back(by_rail[*rail]);
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
  health_.check_invariants();
}

}  // namespace r2ccl
