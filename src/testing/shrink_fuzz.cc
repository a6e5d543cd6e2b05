#include "base/check.h"
#include "protocol/shrink/shrink_agreement.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

constexpr int32_t kShrinkRanks = 4;
constexpr size_t kShrinkHosts = 3;

// A rank with a call that waits takes any message of another one, and its call ends.
bool fuzz_shrink_agreement(const ShrinkMessage& message) {
  bool taken = false;
  for (const int32_t self : {0, 2}) {
    ShrinkAgreement agreement(Rank(self), kShrinkRanks, 10 * kSecond);
    agreement.call({Rank(3)}, {}, 0);
    const Status status = agreement.on_message(Rank(1), message, kMillisecond);
    R2CCL_CHECK(status.ok() == status.message().empty());
    taken = taken || status.ok();
    for (const ShrinkSend& send : agreement.take_sends()) {
      R2CCL_CHECK(decode_shrink_message(encode(send.message), kShrinkRanks, kShrinkHosts).ok());
    }
    for (int32_t rank = 0; rank < kShrinkRanks; ++rank) {
      if (rank == self) continue;
      agreement.on_gone(Rank(rank), ShrinkOutcome::died, kSecond);
    }
    R2CCL_CHECK(agreement.outcome().has_value());
  }
  return taken;
}

}  // namespace

bool fuzz_shrink(std::span<const std::byte> input) {
  const auto decoded = decode_shrink_message(input, kShrinkRanks, kShrinkHosts);
  R2CCL_CHECK(decoded.ok() == decoded.status().message().empty());
  if (!decoded.ok()) return false;
  const auto again = decode_shrink_message(encode(decoded.value()), kShrinkRanks, kShrinkHosts);
  R2CCL_CHECK(again.ok() && again.value() == decoded.value());
  return fuzz_shrink_agreement(decoded.value());
}

}  // namespace r2ccl
