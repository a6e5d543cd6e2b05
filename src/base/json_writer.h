// Writes JSON text. It does just enough for reports, without a library in the shared object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/printable.h"

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
  // Appends text that is JSON already.
  JsonWriter& json(std::string_view text) { return raw(text); }
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
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      // A JSON reader refuses the whole text for one wrong byte, so replace that byte.
      const size_t length = utf8_length(text.substr(at));
      if (length != 1) {
        text_ += length == 0 ? std::string_view("\\ufffd") : text.substr(at, length);
      } else if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        text_ += escape;
      } else {
        text_ += c;
      }
      at += length == 0 ? 1 : length;
    }
    text_ += '"';
  }
  std::string text_;
  bool fresh_ = true;
};

}  // namespace r2ccl
