// The CUDA runtime's functions about memory. Device memory is aligned host memory.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device.h"
#include "stream.h"

namespace r2ccl::emulated {
namespace {

// Memory that CUDA knows: device memory and pinned host memory. Other memory is pageable, which an
// asynchronous copy must read before it returns: NCCL passes the addresses of local variables.
class KnownMemory {
 public:
  static KnownMemory& get() {
    static auto* instance = new KnownMemory;  // NCCL's threads may outlive static objects
    return *instance;
  }
  int allocate(void** memory, size_t bytes) {
    constexpr size_t kPageBytes = 4096;
    if (bytes == 0) bytes = 1;
    if (posix_memalign(memory, kPageBytes, bytes) != 0) return kOutOfMemory;
    add(*memory, bytes);
    return kSuccess;
  }
  int free(void* memory) {
    if (memory == nullptr) return kSuccess;
    if (!remove(memory)) return kInvalidValue;
    std::free(memory);
    return kSuccess;
  }
  void add(const void* memory, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_[reinterpret_cast<uintptr_t>(memory)] = bytes;
  }
  bool remove(const void* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_.erase(reinterpret_cast<uintptr_t>(memory)) != 0;
  }
  bool contains(const void* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(memory);
    auto next = bytes_.upper_bound(at);
    if (next == bytes_.begin()) return false;
    --next;
    return at < next->first + next->second;
  }

 private:
  std::mutex mutex_;  // guards the member below
  std::map<uintptr_t, size_t> bytes_;
};

}  // namespace
}  // namespace r2ccl::emulated

using namespace r2ccl::emulated;

extern "C" {

int cudaMalloc(void** memory, size_t bytes) {
  return KnownMemory::get().allocate(memory, bytes);
}
int cudaFree(void* memory) {
  return KnownMemory::get().free(memory);
}
int cudaHostAlloc(void** memory, size_t bytes) {
  return KnownMemory::get().allocate(memory, bytes);
}
int cudaFreeHost(void* memory) {
  return KnownMemory::get().free(memory);
}
int cudaHostRegister(void* memory, size_t bytes) {
  KnownMemory::get().add(memory, bytes);
  return kSuccess;
}
int cudaHostUnregister(void* memory) {
  return KnownMemory::get().remove(memory) ? kSuccess : kInvalidValue;
}
int cudaHostGetDevicePointer(void** device, void* host) {
  *device = host;
  return kSuccess;
}

int cudaMemcpy(void* target, const void* source, size_t bytes) {
  Stream::of(nullptr).wait_until_idle();
  std::memmove(target, source, bytes);
  return kSuccess;
}
int cudaMemset(void* target, int value, size_t bytes) {
  Stream::of(nullptr).wait_until_idle();
  std::memset(target, value, bytes);
  return kSuccess;
}
int cudaMemcpyAsync(void* target, const void* source, size_t bytes, int, void* handle) {
  Stream& stream = Stream::of(handle);
  if (KnownMemory::get().contains(source)) {
    stream.push([=] { std::memmove(target, source, bytes); });
  } else {
    const char* from = static_cast<const char*>(source);
    const auto copy = std::make_shared<std::vector<char>>(from, from + bytes);
    stream.push([=] { std::memcpy(target, copy->data(), bytes); });
  }
  if (!KnownMemory::get().contains(target)) stream.wait_until_idle();
  return kSuccess;
}
int cudaMemsetAsync(void* target, int value, size_t bytes, void* handle) {
  Stream::of(handle).push([=] { std::memset(target, value, bytes); });
  return kSuccess;
}

// A pool is a name for the one heap.
int cudaMemPoolCreate(void** pool) {
  static char the_pool;
  *pool = &the_pool;
  return kSuccess;
}
int cudaMemPoolDestroy() {
  return kSuccess;
}
int cudaMemPoolSetAttribute() {
  return kSuccess;
}
int cudaMemPoolTrimTo() {
  return kSuccess;
}
int cudaMallocFromPoolAsync(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes);
}
int cudaFreeAsync(void* memory, void* handle) {
  Stream::of(handle).push([=] { cudaFree(memory); });
  return kSuccess;
}

int cudaPointerGetAttributes(void* attributes, const void* memory) {
  struct Attributes {
    int type;
    int device;
    const void* device_pointer;
    const void* host_pointer;
  };
  constexpr int kDeviceMemory = 2;
  *static_cast<Attributes*>(attributes) = {kDeviceMemory, 0, memory, memory};
  return kSuccess;
}

}  // extern "C"
