#include "runtime/link/user_memory.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/fork_guard.h"

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

// Returns whether the kernel refuses access to a page of the range, which the caller will touch in
// any case. The cost grows with the pages (7 us for 1 MB). An old kernel does not know the
// question, and special memory does not support it.
bool is_refused(uintptr_t begin, uintptr_t end, Access access) {
  const uintptr_t from = page_of(begin);
  const int advice = access == Access::write ? kPopulateWrite : kPopulateRead;
  auto* const first = reinterpret_cast<void*>(from);  // NOLINT(performance-no-int-to-ptr)
  return madvise(first, end - from, advice) != 0;
}

// Returns the list of this process's mappings, or -1. All threads share it: a question has no place
// in the file. A forked child, which has other mappings, opens it again.
int mappings_file() {
  static std::atomic<const GuardedFd*> shared{nullptr};
  const GuardedFd* known = shared.load(std::memory_order_acquire);
  if (known != nullptr && known->valid()) return known->get();
  auto opened = std::make_unique<const GuardedFd>(
      GuardedFd::from([] { return open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }));
  if (!opened->valid()) return -1;
  // The object lasts as long as the process: another thread may just read it.
  if (shared.compare_exchange_strong(known, opened.get(), std::memory_order_acq_rel)) {
    return opened.release()->get();
  }
  return known->get();
}

// The kernel's struct procmap_query; the C library's headers may be older than Linux 6.11.
struct MappingQuery {
  uint64_t size = sizeof(MappingQuery);
  uint64_t flags = 0;    // 0: the mapping that holds `address`
  uint64_t address = 0;  // in; the rest is out
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t rights = 0;  // 1: readable, 2: writable
  uint64_t page_size = 0;
  uint64_t file_offset = 0;
  uint64_t inode = 0;
  uint32_t device[2] = {};
  uint32_t name_and_build_id_sizes[2] = {};  // 0: not wanted
  uint64_t name_and_build_id[2] = {};
};
constexpr unsigned long kQueryMapping = _IOWR('f', 17, MappingQuery);

// Looks up the mappings of the range. Returns nothing if the kernel does not know the question.
// `last`: the last answer in this call, if any.
std::optional<bool> mappings_refuse(uintptr_t begin, uintptr_t end, Access access,
                                    MappingQuery& last) {
  const int file = mappings_file();
  if (file < 0) return std::nullopt;
  const uint64_t needed = access == Access::write ? 2 : 1;
  for (uintptr_t at = begin; at < end; at = last.end) {
    if (at < last.begin || at >= last.end) {
      last = {};
      last.address = at;
      if (ioctl(file, kQueryMapping, &last) != 0) {
        last = {};
        return errno == ENOENT ? std::optional(true) : std::nullopt;
      }
    }
    if ((last.rights & needed) == 0) return true;
  }
  return false;
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

namespace {

std::optional<BadMemory> find_bad(std::span<const std::byte> range, Access access,
                                  MappingQuery& last) {
  if (range.empty()) return std::nullopt;
  const uintptr_t begin = address_of(range.data());
  const uintptr_t end = end_of(begin, range.size());
  const std::optional<bool> answer = mappings_refuse(begin, end, access, last);
  if (!(answer ? *answer : is_refused(begin, end, access))) return std::nullopt;
  const auto refused = first_refused(begin, end, access);
  if (!refused) return std::nullopt;
  return BadMemory{range.data() + (*refused - begin), access};
}

}  // namespace

std::optional<BadMemory> find_bad_memory(std::span<const std::byte> range, Access access) {
  MappingQuery last;
  return find_bad(range, access, last);
}

std::optional<BadMemory> find_bad_memory(std::span<const std::byte> written,
                                         std::span<const std::byte> read) {
  MappingQuery last;
  const auto bad = find_bad(written, Access::write, last);
  return bad ? bad : find_bad(read, Access::read, last);
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
