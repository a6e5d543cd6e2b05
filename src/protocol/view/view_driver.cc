#include "protocol/view/view_driver.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

NicReach reach_of(size_t reached, size_t missed) {
  if (missed <= reached) return kWholeReach;
  if (reached == 0) return 0;
  const size_t part = reached * kWholeReach / (reached + missed);
  return static_cast<NicReach>(std::max<size_t>(part, 1));
}

std::vector<std::byte> encode(const HostReport& report) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(report.reach.size()));
  for (const NicReach reach : report.reach) out.put(reach);
  out.put(static_cast<uint8_t>(report.slow.size()));
  for (const SlowNic& slow : report.slow) {
    out.put(slow.nic);
    out.put(slow.rate);
    out.put(slow.host);
    out.put(slow.peer_nic);
  }
  return bytes;
}

namespace {

Status refused_report(const std::string& what) {
  return {Code::remote, "a report of NICs " + what};
}

Status check(const HostReport& report) {
  if (report.reach.size() > limits::kNicsMax) return refused_report("of too many of them");
  for (const NicReach reach : report.reach) {
    if (reach > kWholeReach) {
      return refused_report("that reach " + std::to_string(reach) + "/1000 of the hosts");
    }
  }
  for (const SlowNic& slow : report.slow) {
    if (slow.nic >= report.reach.size()) return refused_report("that the host lacks");
    if (slow.rate == 0 || slow.rate >= kWholeNic) {
      return refused_report("of which a slow one is not slow");
    }
  }
  return {};
}

}  // namespace

Result<HostReport> decode_host_report(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  HostReport report;
  report.reach.resize(in.get<uint8_t>());
  for (NicReach& reach : report.reach) reach = in.get<NicReach>();
  const size_t slow_count = in.get<uint8_t>();
  for (size_t i = 0; i < slow_count && !in.bad(); ++i) {
    SlowNic slow;
    slow.nic = in.get<uint16_t>();
    slow.rate = in.get<uint32_t>();
    slow.host = in.get<uint32_t>();
    slow.peer_nic = in.get<uint16_t>();
    report.slow.push_back(slow);
  }
  if (in.bad() || in.remaining() > 0) return refused_report("that is truncated or too long");
  R2CCL_RETURN_IF_ERROR(check(report));
  return report;
}

ReachFilter::ReachFilter(std::vector<NicReach> first, TimeNs now)
    : nics_(first.size()), reported_(std::move(first)) {
  for (size_t nic = 0; nic < nics_.size(); ++nic) {
    nics_[nic].momentary = reported_[nic];
    nics_[nic].since = now;
  }
}

void ReachFilter::observe(std::span<const NicReach> momentary, TimeNs now) {
  R2CCL_CHECK(momentary.size() == nics_.size());
  for (size_t i = 0; i < nics_.size(); ++i) {
    NicWatch& nic = nics_[i];
    if (momentary[i] == kWholeReach) nic.has_been_whole = true;
    if (momentary[i] == nic.momentary) continue;
    // One path after the other fails.
    const bool was_worse = is_worse(i);
    nic.momentary = momentary[i];
    if (!was_worse || !is_worse(i)) nic.since = now;
  }
}

bool ReachFilter::is_worse(size_t nic) const {
  return nics_[nic].momentary < reported_[nic];
}

TimeNs ReachFilter::due(size_t nic) const {
  const NicWatch& watch = nics_[nic];
  if (watch.momentary == reported_[nic]) return kNever;
  if (is_worse(nic)) return watch.since + (watch.has_been_whole ? kLossAfter : kFirstLossAfter);
  constexpr int kDoublingsMax = 20;
  const int doublings = std::clamp(watch.losses - 1, 0, kDoublingsMax);
  return watch.since + std::min(kReturnAfter << doublings, kReturnAfterMax);
}

const std::vector<NicReach>& ReachFilter::reach(TimeNs now) {
  for (size_t i = 0; i < nics_.size(); ++i) {
    NicWatch& nic = nics_[i];
    if (due(i) > now) continue;
    if (is_worse(i)) {
      nic.losses = nic.losses > 0 && now - nic.lost_at < kFlapMemory ? nic.losses + 1 : 1;
      nic.lost_at = now;
      if (mutated(Mutant::view_undamped)) nic.losses = 1;
    }
    reported_[i] = nic.momentary;
  }
  return reported_;
}

TimeNs ReachFilter::next_timeout() const {
  TimeNs next = kNever;
  for (size_t nic = 0; nic < nics_.size(); ++nic) next = std::min(next, due(nic));
  return next;
}

ViewDriver::ViewDriver(std::vector<HostRates> hosts)
    : first_(std::move(hosts)), reports_(first_.size()) {
  for (const HostRates& host : first_) rails_ = std::max(rails_, host.size());
}

Status ViewDriver::on_report(size_t host, const HostReport& report, TimeNs now) {
  if (host >= reports_.size() || report.reach.size() != first_[host].size()) {
    return {Code::remote, "a report of " + std::to_string(report.reach.size()) + " NICs of host " +
                              std::to_string(host) + ", which has others"};
  }
  if (report == reports_[host]) return {};
  reports_[host] = report;
  if (due_ == kNever) due_ = now + kSettle;
  return {};
}

// Returns the least rate at which another host than the one that it sends to sends to the slow NIC.
uint32_t ViewDriver::received(uint32_t host, const SlowNic& slow) const {
  uint32_t least = kWholeNic;
  for (uint32_t from = 0; from < reports_.size(); ++from) {
    if (from == host || from == slow.host || !reports_[from]) continue;
    for (const SlowNic& other : reports_[from]->slow) {
      if (other.host == host && other.peer_nic == slow.nic) least = std::min(least, other.rate);
    }
  }
  return least;
}

// Finds the lost NICs of a rail. A broken path says no more than that one of its two NICs failed. A
// failed one reaches the fewest hosts, so the NICs are judged in the order of their reach: a NIC
// need not reach those that were found to be lost, and is lost if it misses more than half of the
// others.
void ViewDriver::find_lost(size_t rail, std::vector<HostRates>& rates) const {
  std::map<NicReach, std::vector<size_t>> by_reach;
  size_t left = 0;
  for (size_t host = 0; host < rates.size(); ++host) {
    if (rail >= rates[host].size()) continue;
    by_reach[reach(host, rail)].push_back(host);
    ++left;
  }
  const size_t others = left - 1;
  for (const auto& [reach, hosts] : by_reach) {
    const size_t lost = mutated(Mutant::view_reach_all) ? 0 : others + 1 - left;
    const size_t missed = std::max((kWholeReach - reach) * others / kWholeReach, lost) - lost;
    if (reach > 0 && 2 * missed < left) return;
    for (const size_t host : hosts) rates[host][rail] = {0, 0};
    left -= hosts.size();
  }
}

NicReach ViewDriver::reach(size_t host, size_t rail) const {
  if (reports_[host]) return reports_[host]->reach[rail];
  const NicRate& first = first_[host][rail];
  return std::min(first.send, first.receive) > 0 ? kWholeReach : 0;
}

// A NIC that sends slowly to several hosts is slow itself. Where it sends slowly to one host only,
// either end may be at fault. It is the NIC with a slow one on either side: of a ring's three NICs
// in a row, the middle one.
std::vector<HostRates> ViewDriver::rates() const {
  std::vector<HostRates> all;
  for (uint32_t host = 0; host < reports_.size(); ++host) {
    all.push_back(reports_[host] ? HostRates(first_[host].size()) : first_[host]);
    if (!reports_[host]) continue;
    for (const SlowNic& slow : reports_[host]->slow) {
      const uint32_t receives = received(host, slow);
      if (slow.host != kSeveralHosts && receives == kWholeNic) continue;
      NicRate& nic = all.back()[slow.nic];
      nic.send = std::min(nic.send, slow.rate);
      nic.receive = std::min(nic.receive, receives);
    }
  }
  for (size_t rail = 0; rail < rails_; ++rail) find_lost(rail, all);
  return all;
}

std::optional<View> ViewDriver::take(TimeNs now) {
  if (now < due_) return std::nullopt;
  due_ = kNever;
  Result<View> view = View::of(rates());
  if (!view.ok()) return std::nullopt;
  return std::move(view).value();
}

}  // namespace r2ccl
