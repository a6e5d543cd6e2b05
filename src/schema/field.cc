#include "schema/field.h"

namespace r2ccl::schema {

std::string table_of(const char* title, std::span<const Row> rows) {
  std::string text = std::string("| ") + title + " | meaning |\n|---|---|\n";
  for (const Row& row : rows) {
    text += std::string("| `") + row.name + "` | " + row.meaning + " |\n";
  }
  return text;
}

}  // namespace r2ccl::schema
