// The stored inputs that a corpus begins with.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  explicit Seeds(std::filesystem::path root) : root_(std::move(root)) {}

  void write(const std::string& fuzzer, const std::string& name, std::span<const std::byte> bytes) {
    std::filesystem::create_directories(root_ / fuzzer);
    std::ofstream out(root_ / fuzzer / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  void write(const std::string& fuzzer, const std::string& name, const std::string& text) {
    write(fuzzer, name, std::as_bytes(std::span(text)));
  }

 private:
  const std::filesystem::path root_;
};

}  // namespace r2ccl
