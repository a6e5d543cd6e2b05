#include <cstddef>
#include <cstdint>
#include <span>

#include "testing/handshake_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  r2ccl::fuzz_handshake(std::as_bytes(std::span(data, size)));
  return 0;
}
