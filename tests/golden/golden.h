// For tests: the texts that users' programs read, as files beside this one. A change of one changes
// an interface.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace r2ccl {

// Returns the text of a file of this repository; empty when there is none.
inline std::string text_of_file(const std::string& name) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream file(root / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string golden(const std::string& name) {
  return text_of_file("tests/golden/" + name);
}

// Returns JSON with a line for each field, so that a difference shows itself.
inline std::string by_line(const std::string& json) {
  std::string text;
  for (size_t i = 0; i < json.size(); ++i) {
    text += json[i];
    const bool ends =
        json[i] == ',' && i + 1 < json.size() && (json[i + 1] == '"' || json[i + 1] == '{');
    if (ends) text += '\n';
  }
  return text + '\n';
}

}  // namespace r2ccl
