// Suggests the name that a person probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace r2ccl {

// Returns the name that is the fewest typing errors from `text`, or an empty text when every name
// is far from it. An error is a letter missing, added or wrong, or two neighbours swapped (optimal
// string alignment distance).
std::string nearest_name(std::string_view text, std::span<const std::string_view> names);

}  // namespace r2ccl
