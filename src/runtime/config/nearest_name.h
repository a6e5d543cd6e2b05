// The name that a person probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace r2ccl {

// The name that is the fewest mistypings from `text` (a letter missing, added or wrong, or two
// neighbours swapped: the optimal string alignment distance); empty when every name is far from it.
std::string nearest_name(std::string_view text, std::span<const std::string_view> names);

}  // namespace r2ccl
