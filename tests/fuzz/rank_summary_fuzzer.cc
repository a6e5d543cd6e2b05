#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/admin/rank_summary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto summary = r2ccl::decode_rank_summary(std::as_bytes(std::span(data, size)));
  if (!summary.ok()) return 0;
  // An accepted summary is within the bounds: encoded again it decodes to the same value, and it
  // prints.
  const auto again = r2ccl::decode_rank_summary(r2ccl::encode(summary.value()));
  R2CCL_CHECK(again.ok() && again.value().nics == summary.value().nics);
  const std::vector<r2ccl::RankCard> cards(2);
  R2CCL_CHECK(!r2ccl::member_json(cards, r2ccl::Rank(1), "host", r2ccl::Presence::answered,
                                  &summary.value())
                   .empty());
  return 0;
}
