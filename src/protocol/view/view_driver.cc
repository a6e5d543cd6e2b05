#include "protocol/view/view_driver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

std::vector<std::byte> encode(const HostReport& report) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(report.rates.size()));
  for (const NicRate& nic : report.rates) {
    out.put(nic.send);
    out.put(nic.receive);
  }
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
  return {Code::remote, "a report of rates " + what};
}

Status check(const HostReport& report) {
  if (report.rates.size() > limits::kNicsMax) return refused_report("of too many NICs");
  for (const NicRate& nic : report.rates) {
    const uint32_t larger = std::max(nic.send, nic.receive);
    if (larger > kNicRateMax) {
      return refused_report("of a NIC of " + std::to_string(larger) + "/1000");
    }
  }
  for (const SlowNic& slow : report.slow) {
    if (slow.nic >= report.rates.size()) return refused_report("of a NIC that the host lacks");
    if (slow.rate == 0 || slow.rate >= kWholeNic) {
      return refused_report("of a slow NIC that is not slow");
    }
  }
  return {};
}

}  // namespace

Result<HostReport> decode_host_report(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  HostReport report;
  report.rates.resize(in.get<uint8_t>());
  for (NicRate& nic : report.rates) {
    nic.send = in.get<uint32_t>();
    nic.receive = in.get<uint32_t>();
  }
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

HostRatesFilter::HostRatesFilter(HostRates first, TimeNs now)
    : nics_(first.size()), reported_(std::move(first)) {
  for (size_t nic = 0; nic < nics_.size(); ++nic) {
    nics_[nic].momentary = reported_[nic];
    nics_[nic].since = now;
  }
}

void HostRatesFilter::observe(const HostRates& momentary, TimeNs now) {
  R2CCL_CHECK(momentary.size() == nics_.size());
  for (size_t i = 0; i < nics_.size(); ++i) {
    NicWatch& nic = nics_[i];
    if (momentary[i].send > 0 && momentary[i].receive > 0) nic.has_been_whole = true;
    if (momentary[i] == nic.momentary) continue;
    nic.momentary = momentary[i];
    nic.since = now;
  }
}

bool HostRatesFilter::is_worse(size_t nic) const {
  const NicRate& is = nics_[nic].momentary;
  return is.send < reported_[nic].send || is.receive < reported_[nic].receive;
}

TimeNs HostRatesFilter::due(size_t nic) const {
  const NicWatch& watch = nics_[nic];
  if (watch.momentary == reported_[nic]) return kNever;
  if (is_worse(nic)) return watch.since + (watch.has_been_whole ? kLossAfter : kFirstLossAfter);
  constexpr int kDoublingsMax = 20;
  const int doublings = std::clamp(watch.losses - 1, 0, kDoublingsMax);
  return watch.since + std::min(kReturnAfter << doublings, kReturnAfterMax);
}

const HostRates& HostRatesFilter::rates(TimeNs now) {
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

TimeNs HostRatesFilter::next_timeout() const {
  TimeNs next = kNever;
  for (size_t nic = 0; nic < nics_.size(); ++nic) next = std::min(next, due(nic));
  return next;
}

ViewDriver::ViewDriver(std::vector<HostRates> hosts) {
  for (HostRates& rates : hosts) reports_.push_back({std::move(rates), {}});
}

Status ViewDriver::on_report(size_t host, const HostReport& report, TimeNs now) {
  if (host >= reports_.size() || report.rates.size() != reports_[host].rates.size()) {
    return {Code::remote, "a report of " + std::to_string(report.rates.size()) + " NICs of host " +
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
std::vector<HostRates> ViewDriver::rates() const {
  std::vector<HostRates> all;
  for (uint32_t host = 0; host < reports_.size(); ++host) {
    all.push_back(reports_[host].rates);
    for (const SlowNic& slow : reports_[host].slow) {
      const uint32_t receives = received(host, slow);
      if (slow.host != kSeveralHosts && receives == kWholeNic) continue;
      NicRate& nic = all.back()[slow.nic];
      nic.send = std::min(nic.send, slow.rate);
      nic.receive = std::min(nic.receive, receives);
    }
  }
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
