#include "text_table.h"

#include <algorithm>

namespace r2ccl::tools {

std::string layout(const std::vector<TextRow>& rows) {
  std::vector<size_t> widths;
  for (const TextRow& row : rows) widths.resize(std::max(widths.size(), row.size()));
  for (const TextRow& row : rows) {
    const bool whole = row.size() == widths.size();
    for (size_t i = 0; i + (whole ? 0 : 1) < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - std::min(widths[i], row[i].size()) + 2, ' ');
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string printable(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // 0xc2 begins the second set of control characters in UTF-8.
    const bool control =
        byte < 0x20 || byte == 0x7f ||
        (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    out += control ? '?' : text[i];
  }
  return out;
}

}  // namespace r2ccl::tools
