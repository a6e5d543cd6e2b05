// Words of a text that is read, as its errors show them.
#pragma once

#include <string>
#include <string_view>

#include "base/printable.h"

namespace r2ccl {

inline std::string quoted(std::string_view word) {
  constexpr size_t kQuotedBytesMax = 40;
  return "'" + printable_text(word, kQuotedBytesMax) + "'";
}

}  // namespace r2ccl
