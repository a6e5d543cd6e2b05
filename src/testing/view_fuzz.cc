#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/health/health_map.h"
#include "protocol/view/view_agreement.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

constexpr int32_t kRanks = 3;
constexpr size_t kHosts = 3;

// A rank of a job takes any message from another one, and keeps its invariants.
bool fuzz_agreement(const ViewMessage& message) {
  ViewAgreement agreement(Rank(0), kRanks, {});
  std::vector<HostRates> hosts(kHosts, HostRates{{}});
  hosts[1][0] = {500, 500};
  agreement.propose(View::of(std::move(hosts)).value(), 0);
  const Status status = agreement.on_message(Rank(1), message, kMillisecond);
  R2CCL_CHECK(status.ok() == status.message().empty());
  agreement.progress(10 * kSecond);
  agreement.check_invariants();
  if (agreement.may_bind(1)) agreement.on_bound(1);
  agreement.on_gone(Rank(1), status.ok(), 11 * kSecond);
  agreement.progress(20 * kSecond);
  agreement.check_invariants();
  return status.ok();
}

// The rank that decides takes any report of a rank.
void fuzz_report(std::span<const std::byte> input) {
  const auto report = decode_nic_report(input);
  R2CCL_CHECK(report.ok() == report.status().message().empty());
  if (!report.ok()) return;
  R2CCL_CHECK(std::ranges::equal(encode(report.value()), input));
  std::vector<uint16_t> rails(limits::kNicsMax);
  std::iota(rails.begin(), rails.end(), uint16_t{0});
  HealthMap map(std::vector(kHosts, rails));
  const Status taken = map.on_report(Rank(1), 1, report.value(), 0);
  R2CCL_CHECK(taken.ok() == taken.message().empty());
  for (TimeNs now = 0; now < 100 * kSecond; now += 10 * kSecond) map.take(now);
}

// A rank takes any table, and may have to go on from it.
void fuzz_rates(std::span<const std::byte> input) {
  const auto rates = decode_rate_table(input);
  R2CCL_CHECK(rates.ok() == rates.status().message().empty());
  if (!rates.ok()) return;
  R2CCL_CHECK(std::ranges::equal(encode(rates.value()), input));
  HealthMap map(std::vector(kHosts, std::vector<uint16_t>{0, 1}), rates.value());
  for (const RailRate& nic : map.table()) R2CCL_CHECK(nic.host < kHosts && nic.rail < 2);
}

}  // namespace

bool fuzz_view(std::span<const std::byte> input) {
  fuzz_report(input);
  fuzz_rates(input);
  const auto decoded = decode_view_message(input, kHosts);
  R2CCL_CHECK(decoded.ok() == decoded.status().message().empty());
  if (!decoded.ok()) return false;
  const auto again = decode_view_message(encode(decoded.value()), kHosts);
  R2CCL_CHECK(again.ok() && again.value() == decoded.value());
  return fuzz_agreement(decoded.value());
}

}  // namespace r2ccl
