// The CUDA runtime's functions about devices, functions and errors. In the files runtime_*.cc a
// function's last parameters are left out where it does not use them: the caller keeps them on
// x86-64.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"
#include "nccl_in_memory.h"
#include "report.h"
#include "stream.h"

namespace r2ccl::emulated {

int device_attribute(int attribute) {
  constexpr int kMultiprocessors = 16, kUnifiedAddressing = 41, kMajor = 75, kMinor = 76,
                kSharedMemoryOptIn = 97, kGpuDirectRdma = 116;
  switch (attribute) {
    case kMajor:
      return kComputeMajor;
    case kMinor:
      return kComputeMinor;
    case kMultiprocessors:
      return 108;
    case kUnifiedAddressing:
      return 1;
    case kSharedMemoryOptIn:
      return 166'912;
    case kGpuDirectRdma:
      // NCCL then gives device memory, which is host memory here, to a network plugin.
      return std::getenv("EMULATED_CUDA_GPU_DIRECT") != nullptr ? 1 : 0;
    default:
      return 0;
  }
}

const char* error_text(int error) {
  static thread_local char text[40];
  std::snprintf(text, sizeof text, "emulated CUDA's error %d", error);
  return text;
}

}  // namespace r2ccl::emulated

using namespace r2ccl::emulated;

extern "C" {

int cudaGetDeviceCount(int* count) {
  *count = 1;
  return kSuccess;
}
int cudaGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
int cudaSetDevice(int device) {
  return device == 0 ? kSuccess : kInvalidDevice;
}
int cudaDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}
int cudaRuntimeGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}
int cudaDeviceGetPCIBusId(char* text, int bytes) {
  std::snprintf(text, static_cast<size_t>(bytes), "%s", kBusId);
  return kSuccess;
}
int cudaDeviceGetAttribute(int* value, int attribute) {
  *value = device_attribute(attribute);
  return kSuccess;
}
int cudaDeviceSetLimit() {
  return kSuccess;
}
int cudaDeviceSynchronize() {
  Stream::wait_for_all();
  return kSuccess;
}
int cudaDeviceCanAccessPeer(int* can) {
  *can = 0;
  return kSuccess;
}
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return kSuccess;
}

// The struct differs between versions of CUDA, so its layout comes from NCCL's own debug
// information.
int cudaGetDeviceProperties(void* properties) {
  const Layout& layout = NcclInMemory::get().layout();
  const auto put = [&](const char* member, const void* value) {
    const Field field = layout.field(std::string("cudaDeviceProp.") + member);
    std::memcpy(address(properties, field), value, field.bytes);
  };
  std::memset(properties, 0, layout.size("cudaDeviceProp"));
  const size_t memory_bytes = size_t{16} << 30;
  put("totalGlobalMem", &memory_bytes);
  put("major", &kComputeMajor);
  put("minor", &kComputeMinor);
  std::strcpy(address(properties, layout.field("cudaDeviceProp.name")), "emulated");
  return kSuccess;
}
int cudaGetDeviceProperties_v2(void* properties) {
  return cudaGetDeviceProperties(properties);
}

int cudaFuncGetAttributes() {
  return kSuccess;
}
int cudaFuncSetAttribute() {
  return kSuccess;
}
int cudaThreadExchangeStreamCaptureMode() {
  return kSuccess;
}
int cudaGetLastError() {
  return kSuccess;
}
int cudaPeekAtLastError() {
  return kSuccess;
}
const char* cudaGetErrorString(int error) {
  return error_text(error);
}
const char* cudaGetErrorName(int error) {
  return error_text(error);
}

}  // extern "C"
