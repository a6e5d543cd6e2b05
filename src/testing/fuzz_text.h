// The bytes of a fuzzer's input as text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace r2ccl {

inline std::string fuzz_text(std::span<const std::byte> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace r2ccl
