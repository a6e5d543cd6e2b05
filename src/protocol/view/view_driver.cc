#include "protocol/view/view_driver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

bool is_slow(const NicRate& nic) {
  return (nic.send > 0 && nic.send < kWholeNic) || (nic.receive > 0 && nic.receive < kWholeNic);
}

}  // namespace

ViewDriver::ViewDriver(std::vector<HostRates> first, std::vector<HostReport> reports, TimeNs now)
    : first_(std::move(first)), reports_(std::move(reports)), lost_(reports_) {
  R2CCL_CHECK(first_.size() == reports_.size());
  for (const HostRates& host : first_) {
    if (std::ranges::any_of(host, is_slow)) due_ = first_until_ = now + kFirstRates;
  }
}

Status ViewDriver::on_report(size_t host, const HostReport& report, TimeNs now) {
  if (host >= reports_.size() || report.reach.size() != first_[host].size()) {
    return {Code::remote, "a report of " + std::to_string(report.reach.size()) + " NICs of host " +
                              std::to_string(host) + ", which has others"};
  }
  if (report == reports_[host]) return {};
  reports_[host] = report;
  due_ = std::min(due_, now + kSettle);
  return {};
}

// Returns the least rate at which another host than the one that it sends to sends to the slow NIC.
uint32_t ViewDriver::received(uint32_t host, const SlowNic& slow) const {
  uint32_t least = kWholeNic;
  for (uint32_t from = 0; from < reports_.size(); ++from) {
    if (from == host || from == slow.host) continue;
    for (const SlowNic& other : reports_[from].slow) {
      if (other.host == host && other.peer_nic == slow.nic) least = std::min(least, other.rate);
    }
  }
  return least;
}

// A NIC that sends slowly to several hosts is slow itself. Where it sends slowly to one host only,
// either end may be at fault. It is the NIC with a slow one on either side: of a ring's three NICs
// in a row, the middle one.
void ViewDriver::find_slow(uint32_t host, HostRates& rates) const {
  for (const SlowNic& slow : reports_[host].slow) {
    const uint32_t receives = received(host, slow);
    if (slow.host != kSeveralHosts && receives == kWholeNic) continue;
    NicRate& nic = rates[slow.nic];
    nic.send = std::min(nic.send, slow.rate);
    nic.receive = std::min(nic.receive, receives);
  }
}

std::vector<HostRates> ViewDriver::rates(TimeNs now) const {
  std::vector<HostRates> all;
  for (uint32_t host = 0; host < reports_.size(); ++host) {
    HostRates& rates = all.emplace_back(first_[host].size());
    find_slow(host, rates);
    for (size_t rail = 0; rail < rates.size(); ++rail) {
      const NicRate& first = first_[host][rail];
      NicRate& nic = rates[rail];
      if (lost_.lost(host, rail)) {
        nic = {0, 0};
      } else if (now < first_until_ && is_slow(first)) {
        nic = {std::min(nic.send, first.send), std::min(nic.receive, first.receive)};
      }
    }
  }
  return all;
}

std::optional<View> ViewDriver::take(TimeNs now) {
  if (now < due_) return std::nullopt;
  lost_.judge(reports_, now);
  due_ = lost_.next_timeout();
  if (now < first_until_) due_ = std::min(due_, first_until_);
  Result<View> view = View::of(rates(now));
  if (!view.ok()) return std::nullopt;
  return std::move(view).value();
}

}  // namespace r2ccl
