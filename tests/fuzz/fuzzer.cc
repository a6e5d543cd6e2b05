// A libFuzzer program; R2CCL_FUZZ_NAME is its entry's name.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/entries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto run = r2ccl::fuzz_entry(R2CCL_FUZZ_NAME);
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
