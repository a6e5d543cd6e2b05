#include "protocol/view/view_driver.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

std::vector<std::byte> encode_host_rates(const HostRates& rates) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  for (const NicRate& nic : rates) {
    out.put(nic.send);
    out.put(nic.receive);
  }
  return bytes;
}

Result<HostRates> decode_host_rates(std::span<const std::byte> bytes) {
  constexpr size_t kNicBytes = 8;
  if (bytes.size() % kNicBytes != 0 || bytes.size() > limits::kNicsMax * kNicBytes) {
    return Status(Code::remote, "a report of rates that is truncated or too long");
  }
  ByteReader in(bytes);
  HostRates rates(bytes.size() / kNicBytes);
  for (NicRate& nic : rates) {
    nic.send = in.get<uint32_t>();
    nic.receive = in.get<uint32_t>();
    if (std::max(nic.send, nic.receive) > kNicRateMax) {
      return Status(Code::remote, "a report of a NIC of " +
                                      std::to_string(std::max(nic.send, nic.receive)) + "/1000");
    }
  }
  return rates;
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

Status ViewDriver::on_rates(size_t host, const HostRates& rates, TimeNs now) {
  if (host >= rates_.size() || rates.size() != rates_[host].size()) {
    return {Code::remote, "a report of " + std::to_string(rates.size()) + " NICs of host " +
                              std::to_string(host) + ", which has others"};
  }
  if (rates == rates_[host]) return {};
  rates_[host] = rates;
  if (due_ == kNever) due_ = now + kSettle;
  return {};
}

std::optional<View> ViewDriver::take(TimeNs now) {
  if (now < due_) return std::nullopt;
  due_ = kNever;
  Result<View> view = View::of(rates_);
  if (!view.ok()) return std::nullopt;
  return std::move(view).value();
}

}  // namespace r2ccl
