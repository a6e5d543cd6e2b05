// Little-endian reading and writing of bounded byte ranges. A reader never runs past its end: it
// turns bad and stays bad, so a parser checks once at the end.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace r2ccl {

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  template <std::unsigned_integral T>
  void put(T value) {
    std::array<std::byte, sizeof(T)> bytes;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
    }
    put_bytes(bytes);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

 private:
  std::vector<std::byte>& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}

  template <std::unsigned_integral T>
  T get() {
    if (in_.size() < sizeof(T)) {
      bad_ = true;
      in_ = {};
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(in_[i]) << (8 * i);
    in_ = in_.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  std::span<const std::byte> get_bytes(size_t count) {
    if (in_.size() < count) {
      bad_ = true;
      in_ = {};
      return {};
    }
    const auto bytes = in_.first(count);
    in_ = in_.subspan(count);
    return bytes;
  }
  bool bad() const { return bad_; }
  size_t remaining() const { return in_.size(); }

 private:
  std::span<const std::byte> in_;
  bool bad_ = false;
};

}  // namespace r2ccl
