#include "base/check.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

// Checks that an accepted body decodes to the same value after it is encoded again.
template <typename Decode>
bool fuzz_with(Decode decode, std::span<const std::byte> bytes) {
  const auto decoded = decode(bytes);
  R2CCL_CHECK(decoded.ok() == decoded.status().message().empty());
  if (!decoded.ok()) return false;
  const auto again = decode(encode(decoded.value()));
  R2CCL_CHECK(again.ok() && again.value() == decoded.value());
  return true;
}

// A fault localiser with an open question takes any answer, and reaches an end.
bool fuzz_fault_localiser(std::span<const std::byte> bytes) {
  FaultLocaliser localiser({4, 4, 4});
  Observation seen;
  seen.peer = Rank(1);
  seen.near = {0, "nic0"};
  seen.far = {1, "nic0"};
  seen.cause = DownCause::silent;
  seen.since_up_us = 60'000'000;
  localiser.observe(seen, 0);
  const auto asked = localiser.wanted(kSecond / 10);
  R2CCL_CHECK(asked.size() == 1);
  auto answer = decode_probe_answer(bytes);
  if (answer.ok()) {
    answer.value().number = asked.front().number;
    localiser.on_answer(answer.value(), kSecond / 10);
  }
  R2CCL_CHECK(localiser.due(kSecond).size() == 1);
  R2CCL_CHECK(localiser.next_timeout() == kNever);
  return answer.ok();
}

}  // namespace

bool fuzz_blame(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const auto mode = std::to_integer<unsigned>(input.front()) % 5;
  input = input.subspan(1);
  const auto observation = [](std::span<const std::byte> bytes) {
    return decode_observation(Rank(0), bytes);
  };
  if (mode == 0) return fuzz_with(observation, input);
  if (mode == 1) return fuzz_with(decode_verdict, input);
  if (mode == 2) return fuzz_with(decode_probe_request, input);
  if (mode == 3) return fuzz_with(decode_probe_answer, input);
  return fuzz_fault_localiser(input);
}

}  // namespace r2ccl
