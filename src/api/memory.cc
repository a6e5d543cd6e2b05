// The C edge: memory for buffers.
#include "api/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "api/calls.h"
#include "api/errors.h"
#include "api/handles.h"
#include "r2ccl/r2ccl.h"
#include "runtime/link/user_memory.h"

namespace r2ccl::api {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
// Far beyond any machine, and no sum below can wrap.
constexpr size_t kBytesMax = size_t{1} << 56;

size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

void* map(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Returns a mapping that begins at a huge page, so that the kernel can use huge pages for all of
// it.
void* map_aligned(size_t bytes) {
  void* const whole = map(bytes + kHugePage);
  if (whole == MAP_FAILED) return whole;
  auto* const first = static_cast<std::byte*>(whole);
  const size_t skipped = -reinterpret_cast<uintptr_t>(first) % kHugePage;
  if (skipped > 0) (void)munmap(first, skipped);
  (void)munmap(first + skipped + bytes, kHugePage - skipped);
  // Advice: the system may have no huge pages.
  (void)madvise(first + skipped, bytes, MADV_HUGEPAGE);
  return first + skipped;
}

}  // namespace

Result<void*> GivenMemory::allocate(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const size_t rounded = bytes > kBytesMax ? bytes : round_up(bytes, huge ? kHugePage : kPage);
  errno = ENOMEM;
  void* const memory = bytes > kBytesMax ? MAP_FAILED : huge ? map_aligned(rounded) : map(rounded);
  if (memory == MAP_FAILED) {
    return system_error("cannot allocate " + std::to_string(bytes) + " bytes", errno);
  }
  const std::lock_guard lock(mutex_);
  try {
    given_.emplace(memory, rounded);
  } catch (...) {
    (void)munmap(memory, rounded);
    throw;
  }
  return memory;
}

bool GivenMemory::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = given_.find(memory);
  if (found == given_.end()) return false;
  (void)munmap(memory, found->second);
  given_.erase(found);
  return true;
}

}  // namespace r2ccl::api

namespace {

using r2ccl::Access;
using r2ccl::Code;
using r2ccl::api::CommObject;
using r2ccl::api::error;
using r2ccl::api::given_memory;
using r2ccl::api::guarded;
using r2ccl::api::result_of;
using r2ccl::api::with_comm;

}  // namespace

extern "C" {

r2cclResult_t r2cclMemAlloc(void** ptr, size_t size) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (ptr == nullptr) return error(Code::invalid_argument, "r2cclMemAlloc: ptr is NULL");
    *ptr = nullptr;
    if (size == 0) return error(Code::invalid_argument, "r2cclMemAlloc: size is 0");
    const auto memory = given_memory().allocate(size);
    if (!memory.ok()) return result_of(memory.status().with_context("r2cclMemAlloc"));
    *ptr = memory.value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclMemFree(void* ptr) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (ptr == nullptr || given_memory().free(ptr)) return r2cclSuccess;
    return error(Code::invalid_argument,
                 "r2cclMemFree: r2cclMemAlloc did not return this pointer, or it was freed");
  });
}

r2cclResult_t r2cclCommRegister(r2cclComm_t handle, void* buff, size_t size, void** registration) {
  if (registration != nullptr) *registration = nullptr;
  return with_comm("r2cclCommRegister", handle, [&](CommObject* comm) -> r2cclResult_t {
    const std::string where = "r2cclCommRegister: ";
    if (registration == nullptr) return error(Code::invalid_argument, where + "handle is NULL");
    if (buff == nullptr || size == 0) {
      return error(Code::invalid_argument, where + "buff is NULL or size is 0");
    }
    const std::span range(static_cast<const std::byte*>(buff), size);
    const auto unreadable = r2ccl::find_bad_memory(range, Access::read);
    if (unreadable) {
      return error(Code::invalid_argument, where + "buff cannot be read at offset " +
                                               std::to_string(unreadable->at - range.data()) +
                                               " of " + std::to_string(size) + " bytes");
    }
    const bool writable = !r2ccl::find_bad_memory(range, Access::write);
    *registration = comm->registered.add(range, writable ? Access::write : Access::read);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommDeregister(r2cclComm_t handle, void* registration) {
  return with_comm("r2cclCommDeregister", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (comm->registered.remove(registration)) return r2cclSuccess;
    return error(Code::invalid_argument,
                 "r2cclCommDeregister: r2cclCommRegister did not return this handle for this "
                 "communicator, or it was deregistered");
  });
}

}  // extern "C"
