#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "protocol/view/view_agreement.h"
#include "protocol/view/view_driver.h"
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

// The proposer takes any report of a host.
void fuzz_report(std::span<const std::byte> input) {
  const auto report = decode_host_report(input);
  R2CCL_CHECK(report.ok() == report.status().message().empty());
  if (!report.ok()) return;
  R2CCL_CHECK(std::ranges::equal(encode(report.value()), input));
  const size_t rails = report.value().reach.size();
  const HostReport whole{HostReach(rails, NicReach{}), {}};
  ViewDriver driver(std::vector(kHosts, HostRates(rails)), std::vector(kHosts, whole), 0);
  R2CCL_CHECK(driver.on_report(1, report.value(), 0).ok());
  for (TimeNs now = 0; now < 100 * kSecond; now += 10 * kSecond) driver.take(now);
}

}  // namespace

bool fuzz_view(std::span<const std::byte> input) {
  fuzz_report(input);
  const auto decoded = decode_view_message(input, kHosts);
  R2CCL_CHECK(decoded.ok() == decoded.status().message().empty());
  if (!decoded.ok()) return false;
  const auto again = decode_view_message(encode(decoded.value()), kHosts);
  R2CCL_CHECK(again.ok() && again.value() == decoded.value());
  return fuzz_agreement(decoded.value());
}

}  // namespace r2ccl
