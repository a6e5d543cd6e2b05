#include "schema/field.h"

namespace r2ccl::schema {

std::string table_of(const char* title, std::span<const Row> rows) {
  std::string text = std::string("| ") + title + " | meaning |\n|---|---|\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool starts = i == 0 || std::string_view(rows[i - 1].meaning) != rows[i].meaning;
    const bool ends =
        i + 1 == rows.size() || std::string_view(rows[i + 1].meaning) != rows[i].meaning;
    text += std::string(starts ? "| `" : ", `") + rows[i].name + "`";
    if (ends) text += std::string(" | ") + rows[i].meaning + " |\n";
  }
  return text;
}

}  // namespace r2ccl::schema
