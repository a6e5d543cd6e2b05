// Fields of an answer as a command shows them: a rank may leave one out or give it another type.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/common/text_table.h"

namespace r2ccl::tools {

// Returns the number, or `missing` where the object has no such number.
inline double number_of(const nlohmann::json& object, const char* field, double missing = 0) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : missing;
}

// Returns the text without control characters, or an empty one where the object has no such text.
inline std::string text_of(const nlohmann::json& object, const char* field) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found != object.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

// Returns false where the object has no such truth value.
inline bool flag_of(const nlohmann::json& object, const char* field) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// Returns the array, or an empty one where the object has no such array.
inline const nlohmann::json& list_of(const nlohmann::json& object, const char* field) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found != object.end() && found->is_array() ? *found : kEmpty;
}

}  // namespace r2ccl::tools
