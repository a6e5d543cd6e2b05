#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/printable.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t bound = 3 + data[0];
  const std::string text =
      r2ccl::printable_text(std::as_bytes(std::span(data, size)).subspan(1), bound);
  R2CCL_CHECK(text.size() <= bound && r2ccl::is_printable(text));
  R2CCL_CHECK(r2ccl::printable_text(text, bound) == text);
  return 0;
}
