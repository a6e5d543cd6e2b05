#include <algorithm>

#include "base/check.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

bool fuzz_arrival(std::span<const std::byte> input) {
  if (input.size() > kArrivalBytesMax) return false;
  const auto arrival = decode_arrival(input);
  R2CCL_CHECK(arrival.ok() == arrival.status().message().empty());
  if (!arrival.ok()) return false;
  R2CCL_CHECK(std::ranges::equal(encode(arrival.value()), input));
  return true;
}

bool fuzz_table(std::span<const std::byte> input, int32_t rank_count) {
  const auto rank_table = decode_table(input, rank_count);
  R2CCL_CHECK(rank_table.ok() == rank_table.status().message().empty());
  if (!rank_table.ok()) return false;
  std::vector<std::vector<std::byte>> encoded;
  for (const RankInfo& info : rank_table.value()) {
    auto bytes = encode(info);
    R2CCL_CHECK(bytes.ok());
    encoded.push_back(std::move(bytes).value());
  }
  const std::vector<std::span<const std::byte>> parts(encoded.begin(), encoded.end());
  const auto again = decode_table(encode_table(parts), rank_count);
  R2CCL_CHECK(again.ok() && again.value() == rank_table.value());
  return true;
}

bool fuzz_refused(std::span<const std::byte> input) {
  const Status why = decode_refused(input);
  R2CCL_CHECK(!why.ok());
  const Status again = decode_refused(encode_refused(why));
  R2CCL_CHECK(again == why);
  return true;
}

}  // namespace

bool fuzz_rendezvous_messages(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const auto mode = std::to_integer<unsigned>(input[0]);
  input = input.subspan(1);
  if (mode % 3 == 0) return fuzz_arrival(input);
  if (mode % 3 == 1) return fuzz_table(input, static_cast<int32_t>(1 + mode / 3 % 8));
  return fuzz_refused(input);
}

}  // namespace r2ccl
