// A stand-in for libnvidia-ml.so.1, which NCCL loads and cannot do without: one device, no links
// between devices. NCCL calls some of these functions without a look at whether they are there.
// Functions that it can do without answer "not supported"; the last parameters of a function are
// left out where it does not use them.
#include <stddef.h>
#include <string.h>

enum { kOk = 0, kNotSupported = 3 };

// The only device. Its handle is never dereferenced.
static char the_device;

int nvmlInit_v2(void) {
  return kOk;
}
int nvmlShutdown(void) {
  return kOk;
}
const char* nvmlErrorString(int error) {
  (void)error;
  return "an error of the emulated NVML";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return kOk;
}
int nvmlDeviceGetHandleByPciBusId(const char* bus_id, void** device) {
  (void)bus_id;
  *device = &the_device;
  return kOk;
}
int nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
  (void)index;
  *device = &the_device;
  return kOk;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  (void)device;
  *index = 0;
  return kOk;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  (void)device;
  *major = 8;
  *minor = 0;
  return kOk;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* is_active) {
  (void)device;
  (void)link;
  *is_active = 0;
  return kOk;
}
int nvmlDeviceGetNvLinkRemotePciInfo(void) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkCapability(void* device, unsigned link, int capability, unsigned* result) {
  (void)device;
  (void)link;
  (void)capability;
  *result = 0;
  return kOk;
}
int nvmlDeviceGetP2PStatus(void* first, void* second, int kind, int* status) {
  enum { kChipsetNotSupported = 1 };
  (void)first;
  (void)second;
  (void)kind;
  *status = kChipsetNotSupported;
  return kOk;
}
int nvmlDeviceGetFieldValues(void) {
  return kNotSupported;
}

struct PciInfo {
  char old_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, struct PciInfo* info) {
  (void)device;
  memset(info, 0, sizeof *info);
  strcpy(info->old_bus_id, "0000:51:00.0");
  strcpy(info->bus_id, "00000000:51:00.0");
  info->bus = 0x51;
  info->device_and_vendor = 0x20b010de;
  info->subsystem = 0x145410de;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* generation) {
  (void)device;
  *generation = 4;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* width) {
  (void)device;
  *width = 16;
  return kOk;
}
