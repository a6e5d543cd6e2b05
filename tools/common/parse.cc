#include "tools/common/parse.h"

#include <cctype>
#include <charconv>

namespace r2ccl::tools {
namespace {

template <typename T>
std::optional<T> parse_whole(const std::string& text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int> parse_int(const std::string& text) {
  return parse_whole<int>(text);
}

std::optional<double> parse_number(const std::string& text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.back())) != 0)
    return {};  // inf, nan
  return parse_whole<double>(text);
}

std::optional<uint64_t> parse_bytes(const std::string& text) {
  std::string digits = text;
  while (!digits.empty() && (digits.back() == 'B' || digits.back() == 'b')) digits.pop_back();
  int shift = 0;
  if (!digits.empty()) {
    switch (std::toupper(static_cast<unsigned char>(digits.back()))) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  if (shift != 0) digits.pop_back();
  std::optional<uint64_t> value = parse_whole<uint64_t>(digits);
  if (!value || *value > (UINT64_MAX >> shift)) return std::nullopt;
  return *value << shift;
}

std::optional<double> parse_bit_rate(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double unit = 1;
  switch (std::toupper(static_cast<unsigned char>(text.back()))) {
    case 'K':
      unit = 1e3;
      break;
    case 'M':
      unit = 1e6;
      break;
    case 'G':
      unit = 1e9;
      break;
    case 'T':
      unit = 1e12;
      break;
    default:
      break;
  }
  const std::optional<double> value =
      parse_number(unit == 1 ? text : text.substr(0, text.size() - 1));
  if (!value) return std::nullopt;
  return *value * unit;
}

}  // namespace r2ccl::tools
