#include <algorithm>
#include <array>

#include "base/check.h"
#include "nccl/listen_handle.h"
#include "nccl/meeting_messages.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

bool run_handle(std::span<const std::byte> input) {
  std::array<std::byte, nccl::kHandleBytes> bytes{};
  std::ranges::copy(input.first(std::min(input.size(), bytes.size())), bytes.begin());
  const auto handle = nccl::decode_listen_handle(bytes);
  R2CCL_CHECK(handle.ok() == handle.status().message().empty());
  if (!handle.ok()) return false;
  std::array<std::byte, nccl::kHandleBytes> again{};
  nccl::encode(handle.value(), again);
  const auto decoded = nccl::decode_listen_handle(again);
  R2CCL_CHECK(decoded.ok() && decoded.value().endpoints == handle.value().endpoints);
  R2CCL_CHECK(decoded.value().process == handle.value().process);
  R2CCL_CHECK(decoded.value().secret == handle.value().secret);
  R2CCL_CHECK(nccl::attempt_of(again) == 0);
  return true;
}

bool run_ask(std::span<const std::byte> input) {
  const auto ask = nccl::decode_ask(input);
  R2CCL_CHECK(ask.ok() == ask.status().message().empty());
  if (!ask.ok()) return false;
  const auto encoded = nccl::encode(ask.value());
  R2CCL_CHECK(encoded.ok());
  const auto again = nccl::decode_ask(encoded.value());
  R2CCL_CHECK(again.ok() && again.value() == ask.value());
  return true;
}

bool run_answer(std::span<const std::byte> input) {
  const auto answer = nccl::decode_answer(input);
  R2CCL_CHECK(answer.ok() == answer.status().message().empty());
  if (!answer.ok()) return false;
  const auto encoded = nccl::encode(answer.value());
  R2CCL_CHECK(encoded.ok());
  const auto again = nccl::decode_answer(encoded.value().bytes());
  R2CCL_CHECK(again.ok() && again.value().link == answer.value().link);
  R2CCL_CHECK(again.value().connection == answer.value().connection);
  R2CCL_CHECK(again.value().info == answer.value().info);
  return true;
}

}  // namespace

bool fuzz_nccl_connect(std::span<const std::byte> input) {
  if (input.empty()) return false;
  switch (std::to_integer<int>(input[0]) % 3) {
    case 0:
      return run_handle(input.subspan(1));
    case 1:
      return run_ask(input.subspan(1));
    default:
      return run_answer(input.subspan(1));
  }
}

}  // namespace r2ccl
