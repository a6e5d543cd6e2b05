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
  agreement.on_gone(Rank(1), 11 * kSecond);
  agreement.progress(20 * kSecond);
  agreement.check_invariants();
  return status.ok();
}

}  // namespace

bool fuzz_view(std::span<const std::byte> input) {
  const auto rates = decode_host_report(input);
  R2CCL_CHECK(!rates.ok() || std::ranges::equal(encode(rates.value()), input));
  const auto decoded = decode_view_message(input, kHosts);
  R2CCL_CHECK(decoded.ok() == decoded.status().message().empty());
  if (!decoded.ok()) return false;
  const auto again = decode_view_message(encode(decoded.value()), kHosts);
  R2CCL_CHECK(again.ok() && again.value() == decoded.value());
  return fuzz_agreement(decoded.value());
}

}  // namespace r2ccl
