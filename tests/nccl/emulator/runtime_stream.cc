// The CUDA runtime's functions about streams and events.
#include <memory>

#include "device.h"
#include "stream.h"

namespace r2ccl::emulated {
namespace {

// The handle of an event is a pointer to this.
using EventHandle = std::shared_ptr<Event>;

Event& event_of(void* handle) {
  return **static_cast<EventHandle*>(handle);
}

}  // namespace
}  // namespace r2ccl::emulated

using namespace r2ccl::emulated;

extern "C" {

int cudaStreamCreate(void** handle) {
  *handle = Stream::create();
  return kSuccess;
}
int cudaStreamCreateWithFlags(void** handle) {
  return cudaStreamCreate(handle);
}
int cudaStreamCreateWithPriority(void** handle) {
  return cudaStreamCreate(handle);
}
int cudaStreamDestroy(void* handle) {
  Stream::destroy(handle);
  return kSuccess;
}
int cudaStreamSynchronize(void* handle) {
  Stream::of(handle).wait_until_idle();
  return kSuccess;
}
int cudaStreamQuery(void* handle) {
  return Stream::of(handle).is_idle() ? kSuccess : kNotReady;
}
int cudaStreamWaitEvent(void* handle, void* event) {
  event_of(event).delay(Stream::of(handle));
  return kSuccess;
}
int cudaStreamGetPriority(void*, int* priority) {
  *priority = 0;
  return kSuccess;
}
int cudaLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
  Stream::of(handle).push([=] { function(argument); });
  return kSuccess;
}

// No stream is ever captured into a graph.
int cudaStreamIsCapturing(void*, int* status) {
  *status = 0;
  return kSuccess;
}
int cudaStreamGetCaptureInfo(void*, int* status) {
  *status = 0;
  return kSuccess;
}
int cudaStreamGetCaptureInfo_v2(void*, int* status) {
  *status = 0;
  return kSuccess;
}
int cudaStreamGetCaptureInfo_v3(void*, int* status) {
  *status = 0;
  return kSuccess;
}

int cudaEventCreate(void** event) {
  *event = new EventHandle(std::make_shared<Event>());
  return kSuccess;
}
int cudaEventCreateWithFlags(void** event) {
  return cudaEventCreate(event);
}
int cudaEventDestroy(void* event) {
  delete static_cast<EventHandle*>(event);
  return kSuccess;
}
int cudaEventRecord(void* event, void* handle) {
  event_of(event).record(Stream::of(handle));
  return kSuccess;
}
int cudaEventQuery(void* event) {
  return event_of(event).is_reached() ? kSuccess : kNotReady;
}
int cudaEventSynchronize(void* event) {
  event_of(event).wait();
  return kSuccess;
}

}  // extern "C"
