// Whether the memory that a caller named can be touched: a buffer that is shorter than its count
// says, or that was freed, must be the caller's error and not a crash or a broken network.
//
// A look costs one or two system calls, whatever the size, and touches no page but the last one. It
// cannot be complete: the mappings of a process change at any time. So it is made once, when a call
// starts, and what the kernel refuses later is looked up here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace r2ccl {

enum class Access : uint8_t { read, write };

// Memory that could not be touched.
struct BadMemory {
  const std::byte* at = nullptr;
  Access access = Access::read;
};

// The first byte that may not be touched, if the kernel says so of a hole in the range or of its
// last page. Nothing: it may be touched, or cannot be judged.
std::optional<BadMemory> find_bad_memory(std::span<const std::byte> range, Access access);

// The same for memory that the kernel has refused: looks at every mapping, which takes longer.
// Where no mapping tells why, the first byte.
BadMemory locate_bad_memory(std::span<const std::byte> range, Access access);

// Copies; false when not all of `from` can be read. `to` is the library's own.
bool copy_if_readable(std::byte* to, std::span<const std::byte> from);

// Where `at` lies in the memory from `begin` on; nothing: outside.
inline std::optional<uint64_t> offset_in(const std::byte* begin, uint64_t bytes,
                                         const std::byte* at) {
  const auto from = reinterpret_cast<uintptr_t>(begin);
  const auto where = reinterpret_cast<uintptr_t>(at);
  if (begin == nullptr || where < from || where - from >= bytes) return std::nullopt;
  return where - from;
}

// A buffer of a call that is under way.
struct BufferUse {
  std::string call;                 // "AllReduce 7 ..."
  const char* buffer = "sendbuff";  // its name in r2ccl.h
  uint64_t offset = 0;              // in it, of the byte that was asked for
  uint64_t bytes = 0;               // its size
};
// "AllReduce 7 ...: recvbuff cannot be written at offset 8192 of 16384 bytes; ...".
std::string describe(const BufferUse& use, Access access);

}  // namespace r2ccl
