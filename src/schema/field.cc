#include "schema/field.h"

namespace r2ccl::schema {

std::string field_table(std::span<const Row> rows) {
  std::string text = "| field | meaning |\n|---|---|\n";
  for (const Row& row : rows) {
    text += std::string("| `") + row.name + "` | " + row.meaning + " |\n";
  }
  return text;
}

}  // namespace r2ccl::schema
