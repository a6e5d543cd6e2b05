// The memory that a program has taken from the C++ heap. One file of a program may include this: it
// gives the program operators new and delete that count. The same work takes the same bytes in each
// run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace r2ccl {
namespace {

std::atomic<int64_t> bytes_given{0};

// glibc keeps the size of a block before it, and rounds the sum up.
int64_t block_bytes(size_t bytes) {
  constexpr size_t kUnit = 16;
  constexpr size_t kLeast = 32;
  return static_cast<int64_t>(
      std::max(kLeast, (bytes + sizeof(size_t) + kUnit - 1) / kUnit * kUnit));
}

// Each block begins with its size, in `alignment` bytes, so that the caller's part is aligned.
void* take(size_t bytes, size_t alignment) noexcept {
  const size_t whole = (bytes + 2 * alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, whole);
  if (block == nullptr) return nullptr;
  *static_cast<size_t*>(block) = bytes;
  bytes_given += block_bytes(bytes);
  return static_cast<std::byte*>(block) + alignment;
}

void give_back(void* given, size_t alignment) noexcept {
  if (given == nullptr) return;
  void* block = static_cast<std::byte*>(given) - alignment;
  bytes_given -= block_bytes(*static_cast<size_t*>(block));
  std::free(block);
}

constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

// Returns the bytes of all blocks that operator new has given and that are not deleted, each as
// large as glibc makes it. Blocks that malloc gave directly do not count.
inline int64_t heap_bytes() {
  return bytes_given;
}

}  // namespace r2ccl

// The operators of arrays, and those that do not throw, call these.
void* operator new(size_t bytes) {
  void* given = r2ccl::take(bytes, r2ccl::kAlignment);
  if (given == nullptr) throw std::bad_alloc();
  return given;
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  void* given = r2ccl::take(bytes, std::max(static_cast<size_t>(alignment), r2ccl::kAlignment));
  if (given == nullptr) throw std::bad_alloc();
  return given;
}

void operator delete(void* given) noexcept {
  r2ccl::give_back(given, r2ccl::kAlignment);
}

void operator delete(void* given, size_t) noexcept {
  r2ccl::give_back(given, r2ccl::kAlignment);
}

void operator delete(void* given, std::align_val_t alignment) noexcept {
  r2ccl::give_back(given, std::max(static_cast<size_t>(alignment), r2ccl::kAlignment));
}

void operator delete(void* given, size_t, std::align_val_t alignment) noexcept {
  r2ccl::give_back(given, std::max(static_cast<size_t>(alignment), r2ccl::kAlignment));
}
