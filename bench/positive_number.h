// Reads the arguments of the programs of this directory.
#pragma once

#include <charconv>
#include <cstring>
#include <system_error>

namespace r2ccl {

// Returns false unless the whole text is a number above 0.
template <typename T>
bool parse_positive(const char* text, T* value) {
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, *value);
  return error == std::errc{} && rest == end && *value > 0;
}

}  // namespace r2ccl
