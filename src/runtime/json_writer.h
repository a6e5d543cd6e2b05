// Writes JSON text: enough for reports, without a library in the shared object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace r2ccl {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    comma();
    quote(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    comma();
    quote(text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(uint64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(int number) { return raw(std::to_string(number)); }
  JsonWriter& value(double number) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.6g", number);
    return raw(digits);
  }
  template <typename T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket) {
    comma();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  JsonWriter& raw(std::string_view token) {
    comma();
    text_ += token;
    return *this;
  }
  void comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  void quote(std::string_view text) {
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool fresh_ = true;
};

}  // namespace r2ccl
