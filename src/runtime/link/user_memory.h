// Finds out whether the memory that a caller named can be touched. A buffer that is shorter than
// its count, or freed, must be the caller's error and not a crash or a broken network.
//
// A check costs one system call per mapping of the range, usually one (Linux 6.11; older kernels
// look at each page). It cannot be complete, because the mappings of a process change at any time.
// So the check runs once, when a call starts, and locates later refusals of the kernel.
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

// Returns the first byte that may not be touched. Returns nothing if the range may be touched, or
// cannot be checked.
std::optional<BadMemory> find_bad_memory(std::span<const std::byte> range, Access access);

// Returns the same for a range that is written and one that is read. One system call suffices where
// one mapping holds both.
std::optional<BadMemory> find_bad_memory(std::span<const std::byte> written,
                                         std::span<const std::byte> read);

// Returns the first bad byte of memory that the kernel has refused. Looks at every mapping, which
// takes longer. Returns the range's first byte when no mapping gives the reason.
BadMemory locate_bad_memory(std::span<const std::byte> range, Access access);

// Copies the bytes. Returns false when not all of `from` can be read. `to` is the library's own
// memory.
bool copy_if_readable(std::byte* to, std::span<const std::byte> from);

// Returns the offset of `at` in the memory from `begin` on; nothing when it lies outside.
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
  uint64_t offset = 0;              // offset of the requested byte in the buffer
  uint64_t bytes = 0;               // its size
};
// Returns "AllReduce 7 ...: recvbuff cannot be written at offset 8192 of 16384 bytes; ...".
std::string describe(const BufferUse& use, Access access);

}  // namespace r2ccl
