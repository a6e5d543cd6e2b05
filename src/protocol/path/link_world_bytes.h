// For tests: what the messages and the notices of the small world of link_world.h say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace r2ccl::link_world {

inline constexpr uint64_t kContext = 7;
inline constexpr std::byte kConsumed{0xdd};
inline constexpr std::byte kOverwritten{0xcc};

// What message `m` says.
inline const std::byte* golden(size_t m) {
  static const std::vector<std::byte> pattern = [] {
    std::vector<std::byte> bytes(64 * 1024);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 199 + 1);
    return bytes;
  }();
  return pattern.data() + m * 5;
}

// Neither library function takes the null of a message of no bytes.
inline bool same(const std::byte* bytes, const std::byte* others, size_t count) {
  return count == 0 || std::memcmp(bytes, others, count) == 0;
}

inline bool all_are(const std::byte* bytes, size_t count, std::byte value) {
  return count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

inline std::vector<std::byte> notice_text(uint64_t number) {
  return {static_cast<std::byte>('a' + number)};
}

}  // namespace r2ccl::link_world
