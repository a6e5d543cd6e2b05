// Collects seeds. Private to this folder.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/seeds.h"

namespace r2ccl {

using Bytes = std::vector<std::byte>;

// Returns `bytes` after the bytes that choose the parser.
inline Bytes with(std::initializer_list<unsigned> first, std::span<const std::byte> bytes) {
  Bytes out;
  for (const unsigned byte : first) out.push_back(static_cast<std::byte>(byte));
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

inline std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Seeds {
 public:
  void add(const std::string& fuzzer, const std::string& name, std::span<const std::byte> bytes) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    add(fuzzer, name, std::string(text, bytes.size()));
  }
  void add(const std::string& fuzzer, const std::string& name, const std::string& text) {
    all_.push_back({fuzzer, name, text});
  }
  void last_is_random() { all_.back().random = true; }
  std::vector<Seed> take() { return std::move(all_); }

 private:
  std::vector<Seed> all_;
};

}  // namespace r2ccl
