#include "runtime/link/user_memory.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

namespace r2ccl {
namespace {

// Since Linux 5.14; the C library's headers may be older.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

uintptr_t address_of(const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at);
}

// Returns the end of a range that starts at `begin`. A range that a wrong count or pointer carries
// beyond the last address ends there: a sum that wraps would make it look empty.
uintptr_t end_of(uintptr_t begin, size_t bytes) {
  return begin + std::min<uintptr_t>(bytes, UINTPTR_MAX - begin);
}

uintptr_t page_of(uintptr_t address) {
  static const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return address / size * size;
}

// Returns whether the kernel reports a part of the range as unmapped. It checks mappings only: the
// cost does not depend on the size, and no page is touched.
bool has_hole(uintptr_t begin, uintptr_t end) {
  const uintptr_t from = page_of(begin);
  auto* const first = reinterpret_cast<void*>(from);  // NOLINT(performance-no-int-to-ptr)
  return msync(first, end - from, MS_ASYNC) != 0 && errno == ENOMEM;
}

// Returns whether the kernel refuses access to the page of the range's last byte. The call will
// touch that page in any case. An old kernel does not know the question, and special memory does
// not support it.
bool last_page_refused(uintptr_t end, Access access) {
  const uintptr_t page = page_of(end - 1);
  const int advice = access == Access::write ? kPopulateWrite : kPopulateRead;
  auto* const first = reinterpret_cast<void*>(page);  // NOLINT(performance-no-int-to-ptr)
  return madvise(first, end - page, advice) != 0;
}

// Returns the first address from `begin` on, below `end`, that no mapping permits to touch. The
// kernel lists mappings by address.
std::optional<uintptr_t> first_refused(uintptr_t begin, uintptr_t end, Access access) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                             std::fclose);
  if (maps == nullptr) return std::nullopt;
  char line[512];
  bool at_line_start = true;
  while (begin < end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    const bool is_mapping = at_line_start;
    at_line_start = std::strchr(line, '\n') != nullptr;
    unsigned long from = 0;
    unsigned long to = 0;
    char rights[5] = "";
    if (!is_mapping || std::sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3) continue;
    if (to <= begin) continue;
    const bool allowed = rights[access == Access::write ? 1 : 0] != '-';
    if (from > begin || !allowed) return begin;
    begin = to;
  }
  return begin < end ? std::optional(begin) : std::nullopt;
}

}  // namespace

std::optional<BadMemory> find_bad_memory(std::span<const std::byte> range, Access access) {
  if (range.empty()) return std::nullopt;
  const uintptr_t begin = address_of(range.data());
  const uintptr_t end = end_of(begin, range.size());
  // For a range within one page the test of the last page is sufficient.
  const bool one_page = page_of(begin) == page_of(end - 1);
  const bool holes = !one_page && has_hole(begin, end);
  if (!holes && !last_page_refused(end, access)) return std::nullopt;
  const auto refused = first_refused(begin, end, access);
  if (!refused) return std::nullopt;
  return BadMemory{range.data() + (*refused - begin), access};
}

BadMemory locate_bad_memory(std::span<const std::byte> range, Access access) {
  const uintptr_t begin = address_of(range.data());
  const auto refused = first_refused(begin, end_of(begin, range.size()), access);
  return {range.data() + (refused.value_or(begin) - begin), access};
}

bool copy_if_readable(std::byte* to, std::span<const std::byte> from) {
  size_t done = 0;
  while (done < from.size()) {
    const iovec target{to + done, from.size() - done};
    const iovec source{const_cast<std::byte*>(from.data()) + done, from.size() - done};
    const ssize_t count = process_vm_readv(getpid(), &target, 1, &source, 1, 0);
    if (count > 0) {
      done += static_cast<size_t>(count);
      continue;
    }
    if (count == 0 || errno == EFAULT) return false;
    // A sandbox may forbid the call, and special memory may not support it.
    const uintptr_t begin = address_of(from.data());
    if (first_refused(begin + done, end_of(begin, from.size()), Access::read)) return false;
    std::memcpy(to + done, from.data() + done, from.size() - done);
    return true;
  }
  return true;
}

std::string describe(const BufferUse& use, Access access) {
  return use.call + ": " + use.buffer + " cannot be " +
         (access == Access::write ? "written" : "read") + " at offset " +
         std::to_string(use.offset) + " of " + std::to_string(use.bytes) +
         " bytes: check that the buffer holds count elements and was not freed";
}

}  // namespace r2ccl
