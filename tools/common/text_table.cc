#include "tools/common/text_table.h"

#include <algorithm>

#include "base/printable.h"

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
  constexpr size_t kTextBytesMax = 4096;
  return printable_text(text, kTextBytesMax);
}

}  // namespace r2ccl::tools
