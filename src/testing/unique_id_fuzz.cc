#include <algorithm>

#include "base/check.h"
#include "protocol/wire/crypto.h"
#include "runtime/bootstrap/unique_id.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

constexpr size_t kChecksumBytes = 8;

// Makes the checksum valid, because a fuzzer cannot find a valid one.
void seal(UniqueIdBytes& bytes) {
  const auto sum =
      crypto::hash("r2ccl unique id 1", std::span(bytes).first(kUniqueIdBytes - kChecksumBytes));
  std::copy_n(sum.begin(), kChecksumBytes, bytes.end() - kChecksumBytes);
}

}  // namespace

bool fuzz_unique_id(std::span<const std::byte> input) {
  if (input.size() != 1 + kUniqueIdBytes) return false;
  UniqueIdBytes bytes;
  std::ranges::copy(input.subspan(1), bytes.begin());
  if ((input[0] & std::byte{1}) != std::byte{}) seal(bytes);
  const auto id = decode_unique_id(bytes);
  R2CCL_CHECK(id.ok() == id.status().message().empty());
  if (!id.ok()) {
    R2CCL_CHECK(id.status().code() == Code::invalid_argument);
    return false;
  }
  const UniqueIdBytes encoded = encode(id.value());
  const auto again = decode_unique_id(encoded);
  R2CCL_CHECK(again.ok() && encode(again.value()) == encoded);
  R2CCL_CHECK(again.value().rendezvous == id.value().rendezvous);
  R2CCL_CHECK(again.value().job.id == id.value().job.id);
  R2CCL_CHECK(again.value().job.secret == id.value().job.secret);
  return true;
}

}  // namespace r2ccl
