#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/bootstrap/rank_card.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto card = r2ccl::decode_rank_card(std::as_bytes(std::span(data, size)));
  // An accepted card is within the bounds, so it can be encoded again.
  if (card.ok()) R2CCL_CHECK(r2ccl::encode(card.value()).ok());
  return 0;
}
