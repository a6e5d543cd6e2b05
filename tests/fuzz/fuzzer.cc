// The libFuzzer program of all entries; the environment variable R2CCL_FUZZ_NAME names the entry.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/entries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const name = std::getenv("R2CCL_FUZZ_NAME");
  static const auto run = r2ccl::fuzz_entry(name == nullptr ? "" : name);
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
