// Tables of the facts that r2ccl shows. A row is one fact: its name and form in JSON, its metric,
// and its meaning for the documents. The report, the status, the metrics and the documents all go
// through the rows, so a new fact is a member and a row.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>

#include "base/json_writer.h"

namespace r2ccl::schema {

// A field of the report as a metric.
struct Metric {
  const char* name = "";  // that of a counter ends with _total; empty: the field has no metric
  const char* help = "";
  double factor = 1;          // 0: the field is a text, which becomes a label, and the value is 1
  const char* known_by = "";  // the number is not known while this field is 0 or false
};

template <typename Get, typename Show = std::identity>
struct Field {
  // `get_it`: a member, or a function of the value. `show_it` makes the form in JSON from the
  // member; an empty std::optional is null there.
  constexpr Field(const char* json_name, Get get_it, const char* words)
      : name(json_name), get(get_it), meaning(words) {}
  constexpr Field(const char* json_name, Get get_it, Show show_it, const char* words)
      : name(json_name), get(get_it), show(show_it), meaning(words) {}

  // Makes the field a metric, too, with the meaning as its help.
  constexpr Field metric(const char* metric_name, double factor = 1,
                         const char* known_by = "") const {
    return metric({metric_name, meaning, factor, known_by});
  }
  constexpr Field metric(const Metric& also) const {
    Field field = *this;
    field.as_metric = also;
    return field;
  }

  const char* name;
  Get get;
  Show show{};
  const char* meaning;
  Metric as_metric;
};

template <typename T>
void write_value(JsonWriter& out, const T& content) {
  if constexpr (requires { content.has_value(); }) {
    content.has_value() ? write_value(out, *content) : void(out.json("null"));
  } else if constexpr (requires { content.value(); }) {  // a strong id
    out.value(content.value());
  } else if constexpr (std::is_enum_v<T>) {
    out.value(to_string(content));
  } else if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>) {
    out.value(uint64_t{content});
  } else {
    out.value(content);
  }
}

// Writes the fields into an object that has begun.
template <typename Value, typename... Fields>
void write_fields(JsonWriter& out, const Value& value, const std::tuple<Fields...>& fields) {
  const auto write = [&](const auto& field) {
    out.key(field.name);
    write_value(out, std::invoke(field.show, std::invoke(field.get, value)));
  };
  std::apply([&](const Fields&... field) { (write(field), ...); }, fields);
}

template <typename Value, typename... Fields>
void write_object(JsonWriter& out, const Value& value, const std::tuple<Fields...>& fields) {
  out.begin_object();
  write_fields(out, value, fields);
  out.end_object();
}

// Writes an array of such objects.
template <typename Values, typename... Fields>
void write_list(JsonWriter& out, const char* key, const Values& values,
                const std::tuple<Fields...>& fields) {
  out.key(key).begin_array();
  for (const auto& value : values) write_object(out, value, fields);
  out.end_array();
}

// A field for the commands and the documents, which have no values.
struct Row {
  const char* name;
  const char* meaning;
  Metric metric;
};
template <typename... Fields>
constexpr std::array<Row, sizeof...(Fields)> rows_of(const std::tuple<Fields...>& fields) {
  return std::apply(
      [](const Fields&... field) {
        return std::array<Row, sizeof...(Fields)>{
            Row{field.name, field.meaning, field.as_metric}...};
      },
      fields);
}

// Returns the rows as the documents have them; neighbours with the same meaning share a line.
std::string table_of(const char* title, std::span<const Row> rows);

}  // namespace r2ccl::schema
