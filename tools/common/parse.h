// Parses numbers from text. The whole text must be the number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace r2ccl::tools {

std::optional<int> parse_int(const std::string& text);
std::optional<double> parse_number(const std::string& text);
// Returns bytes with an optional binary unit: 1048576, 64K, 1M, 4G.
std::optional<uint64_t> parse_bytes(const std::string& text);
// Returns bits a second with an optional decimal unit: 250M, 50G, 1.6T.
std::optional<double> parse_bit_rate(const std::string& text);

}  // namespace r2ccl::tools
