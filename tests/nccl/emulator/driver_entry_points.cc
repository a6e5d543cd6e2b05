// The functions of the CUDA driver that NCCL asks the runtime for. It calls some of them without a
// look at whether it got them, so each must be here; the driver has none of the others.
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "device.h"
#include "nccl_in_memory.h"
#include "report.h"
#include "stream.h"

namespace r2ccl::emulated {
namespace {

int get_error_string(int error, const char** text) {
  *text = error_text(error);
  return kSuccess;
}

int get_device(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}

int get_device_attribute(int* value, int attribute) {
  *value = device_attribute(attribute);
  return kSuccess;
}

// The id is of this process: NCCL recognises by it two ranks of one host that share a device.
int get_device_uuid(void* uuid) {
  constexpr size_t kUuidBytes = 16;
  std::memset(uuid, 0, kUuidBytes);
  const pid_t process = getpid();
  std::memcpy(uuid, &process, sizeof process);
  return kSuccess;
}

int the_context = 0;  // only its address counts

int get_context(void** context) {
  *context = &the_context;
  return kSuccess;
}

int set_context() {
  return kSuccess;
}

int get_context_device(int* device) {
  *device = 0;
  return kSuccess;
}

// Finds the block of parameters in the list of names and values that a launch passes.
std::vector<char> parameters_of(void* const* extra) {
  constexpr uintptr_t kPointer = 1, kSize = 2;
  const char* block = nullptr;
  size_t bytes = 0;
  for (; extra != nullptr && extra[0] != nullptr; extra += 2) {
    const auto name = reinterpret_cast<uintptr_t>(extra[0]);
    if (name == kPointer) block = static_cast<const char*>(extra[1]);
    if (name == kSize) bytes = *static_cast<const size_t*>(extra[1]);
  }
  if (block == nullptr) unsupported("a launch without a block of parameters");
  return {block, block + bytes};
}

int launch(const void* kernel, unsigned blocks, void* stream, void* const* extra) {
  const NcclInMemory& nccl = NcclInMemory::get();
  nccl.expect_kernel(kernel);
  const auto parameters = std::make_shared<std::vector<char>>(parameters_of(extra));
  Stream::of(stream).push(
      [&nccl, parameters, blocks] { nccl.run_kernel(parameters->data(), blocks); });
  return kSuccess;
}

int launch_kernel(const void* kernel, unsigned blocks, unsigned, unsigned, unsigned, unsigned,
                  unsigned, unsigned, void* stream, void**, void** extra) {
  return launch(kernel, blocks, stream, extra);
}

int launch_kernel_with(const void* configuration, const void* kernel, void**, void** extra) {
  struct Configuration {
    unsigned blocks[3];
    unsigned threads[3];
    unsigned shared_bytes;
    void* stream;
  };
  const auto& given = *static_cast<const Configuration*>(configuration);
  return launch(kernel, given.blocks[0], given.stream, extra);
}

template <typename Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* entry_point(std::string_view name) {
  struct Entry {
    std::string_view name;
    void* function;
  };
  static const Entry entries[] = {
      {"cuGetErrorString", pointer(get_error_string)},
      {"cuGetErrorName", pointer(get_error_string)},
      {"cuDeviceGet", pointer(get_device)},
      {"cuDeviceGetAttribute", pointer(get_device_attribute)},
      {"cuDeviceGetUuid", pointer(get_device_uuid)},
      {"cuCtxCreate", pointer(get_context)},
      {"cuCtxDestroy", pointer(set_context)},
      {"cuCtxGetCurrent", pointer(get_context)},
      {"cuCtxSetCurrent", pointer(set_context)},
      {"cuCtxGetDevice", pointer(get_context_device)},
      {"cuLaunchKernel", pointer(launch_kernel)},
      {"cuLaunchKernelEx", pointer(launch_kernel_with)},
  };
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace
}  // namespace r2ccl::emulated

using namespace r2ccl::emulated;

extern "C" {

int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, int* status) {
  constexpr int kFound = 0, kSymbolNotFound = 1;
  *function = entry_point(name);
  if (status != nullptr) *status = *function != nullptr ? kFound : kSymbolNotFound;
  return *function != nullptr ? kSuccess : kNotFound;
}

int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                     unsigned long long flags, int* status) {
  return cudaGetDriverEntryPoint(name, function, flags, status);
}

// A kernel's handle is the address of its function on the host.
int cudaGetFuncBySymbol(void** kernel, const void* host_function) {
  *kernel = const_cast<void*>(host_function);
  return kSuccess;
}

}  // extern "C"
