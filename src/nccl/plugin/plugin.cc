// The tables that NCCL finds in the plugin, over one core (net.h). NCCL takes the highest version
// that it knows.
#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <type_traits>

#include "base/fork_guard.h"
#include "base/limits.h"
#include "nccl/abi.h"
#include "nccl/net.h"
#include "r2ccl/r2ccl.h"

#define R2CCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace r2ccl::nccl {
namespace {

constexpr const char* kName = "r2ccl";
constexpr int kCommsMax = 64 * 1024;
constexpr float kLatencyUnknown = 0;
// A test's build takes the memory of emulated GPUs, which is memory of the host.
#ifdef R2CCL_EMULATED_GPU
constexpr int kPointers = kPointerHost | kPointerGpu;
#else
constexpr int kPointers = kPointerHost;
#endif

struct Process {
  std::atomic<Logger> log = nullptr;
  std::mutex mutex;  // guards changes of the rest
  // Null until a first init has succeeded, and in a forked child until its own. Never destroyed.
  std::atomic<Net*> net = nullptr;
  Net* of_parent = nullptr;  // a forked child has no part in these links
  int contexts = 0;
};

Process& process() {
  // Never destroyed: NCCL's threads may call at exit. A plugin that NCCL loads again finds it here.
  static auto* const instance = new Process;
  return *instance;
}

// The child of a fork begins anew. No other thread may hold the lock at that moment.
void register_fork_handlers() {
  [[maybe_unused]] static const bool once = [] {
    at_fork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); },
            [] {
              Process& here = process();
              here.of_parent = here.net.exchange(nullptr);
              here.contexts = 0;
              here.mutex.unlock();
            });
    return true;
  }();
}

void tell(int level, const std::string& text) {
  const Logger log = process().log;
  if (log != nullptr) log(level, kSubsystemNet, __FILE__, __LINE__, "NET/r2ccl : %s", text.c_str());
}

Outcome outcome_of(const Status& status) {
  switch (status.code()) {
    case Code::ok:
      return kSuccess;
    case Code::system:
      return kSystemError;
    case Code::invalid_argument:
      return kInvalidArgument;
    case Code::invalid_usage:
      return kInvalidUsage;
    case Code::remote:
    case Code::timeout:
    case Code::aborted:
      return kRemoteError;
    case Code::internal:
    case Code::in_progress:
      return kInternalError;
  }
  return kInternalError;
}

Outcome fail(const char* call, const Status& why) {
  tell(kLogWarn, std::string(call) + ": " + why.message());
  return outcome_of(why);
}

// Runs body(); no exception reaches NCCL.
template <typename Body>
Outcome guarded(const char* call, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(call, Status::out_of_memory());
  } catch (const std::exception& error) {
    return fail(call, Status::in_any_case(Code::internal, error.what()));
  }
}

// Runs body(Net&). NCCL may call though init has failed, or was never called.
template <typename Body>
Outcome with_net(const char* call, Body body) {
  Net* const net = process().net;
  if (net == nullptr) return fail(call, {Code::invalid_usage, "init has not succeeded"});
  return guarded(call, [&] { return body(*net); });
}

// Runs body(Net&) for a call that names a device.
template <typename Body>
Outcome with_device(const char* call, int device, Body body) {
  return with_net(call, [&](Net& net) {
    if (device < 0 || static_cast<size_t>(device) >= net.devices().size()) {
      return fail(call, {Code::invalid_argument, "there is no device " + std::to_string(device)});
    }
    return body(net);
  });
}

Outcome open_net() {
  Process& here = process();
  if (here.net != nullptr) return kSuccess;
  register_fork_handlers();
  auto net = Net::open(R2CCL_VERSION_CODE, [](const std::string& text) { tell(kLogWarn, text); });
  if (!net.ok()) return fail("init, so NCCL uses another network", net.status());
  here.net = net.value().release();
  std::string names;
  for (const Device& device : here.net.load()->devices()) names += " " + device.name;
  tell(kLogInfo, "devices:" + names);
  return kSuccess;
}

// Versions up to 10 begin once, and never end.
Outcome init(Logger log) {
  return guarded("init", [log] {
    const std::lock_guard lock(process().mutex);
    process().log = log;
    return open_net();
  });
}

Outcome init(Logger log, void*) {
  return init(log);
}

Outcome init(void** context, uint64_t, void*, Logger log, void*) {
  return guarded("init", [context, log] {
    const std::lock_guard lock(process().mutex);
    process().log = log;
    const Outcome opened = open_net();
    if (opened != kSuccess) return opened;
    ++process().contexts;
    *context = process().net;
    return kSuccess;
  });
}

// NCCL may finalize a context that it has not begun, or has begun in vain.
Outcome finalize(void*) {
  return guarded("finalize", [] {
    Process& here = process();
    Net* net = nullptr;
    {
      const std::lock_guard lock(here.mutex);
      here.contexts = std::max(here.contexts - 1, 0);
      if (here.contexts == 0) net = here.net;
    }
    if (net != nullptr) net->flush();
    return kSuccess;
  });
}

// The other processes learn of the end from this one, before they find its connections closed.
__attribute__((destructor)) void at_exit() {
  Net* const net = process().net;
  if (net != nullptr) net->flush(true);
}

Outcome devices(int* count) {
  return with_net("devices", [count](const Net& net) {
    *count = static_cast<int>(net.devices().size());
    return kSuccess;
  });
}

template <typename Properties>
void fill(const Device& device, Properties* properties) {
  *properties = {};
  properties->name = const_cast<char*>(device.name.c_str());
  properties->pciPath =
      device.pci_path.empty() ? nullptr : const_cast<char*>(device.pci_path.c_str());
  properties->guid = device.guid;
  properties->ptrSupport = kPointers;
  properties->speed = device.speed_mbps;
  properties->port = device.port;
  properties->latency = kLatencyUnknown;
  properties->maxComms = kCommsMax;
  properties->maxRecvs = static_cast<int>(kReceivesMax);
}

void fill_sizes(int device, auto* properties) {
  properties->vProps.ndevs = 1;
  properties->vProps.devs[0] = device;
  properties->maxP2pBytes = limits::kMessageBytesMax;
  properties->maxCollBytes = limits::kMessageBytesMax;
}

template <typename Properties>
void fill(const Device& chosen, int device, Properties* properties) {
  if constexpr (std::is_same_v<Properties, PropertiesV11>) {
    *properties = {};
    properties->maxMultiRequestSize = 1;
    fill(chosen, &properties->common);
    fill_sizes(device, &properties->common);
  } else {
    fill(chosen, properties);
    if constexpr (std::is_same_v<Properties, PropertiesV9>) fill_sizes(device, properties);
    if constexpr (std::is_same_v<Properties, PropertiesV12>) {
      fill_sizes(device, properties);
      properties->maxMultiRequestSize = 1;
      properties->railId = properties->planeId = -1;
    }
  }
}

template <typename Properties>
Outcome get_properties(int device, Properties* properties) {
  return with_device("getProperties", device, [&](const Net& net) {
    fill(net.devices()[static_cast<size_t>(device)], device, properties);
    return kSuccess;
  });
}

std::span<std::byte, kHandleBytes> handle_of(void* handle) {
  return std::span<std::byte, kHandleBytes>(static_cast<std::byte*>(handle), kHandleBytes);
}

// A listener is its number, and listens on all NICs.
Outcome listen(int device, void* handle, void** listener) {
  return with_device("listen", device, [&](Net& net) {
    const auto made = net.listen(handle_of(handle));
    if (!made.ok()) return fail("listen", made.status());
    *listener = reinterpret_cast<void*>(uintptr_t{made.value()});
    return kSuccess;
  });
}

uint32_t number_of(void* listener) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(listener));
}

Outcome connect(int device, void* handle, void** comm) {
  return with_device("connect", device, [&](Net& net) {
    *comm = nullptr;
    const auto made = net.connect(static_cast<size_t>(device), handle_of(handle));
    if (!made.ok()) return fail("connect", made.status());
    *comm = made.value();
    return kSuccess;
  });
}

Outcome accept(void* listener, void** comm) {
  return with_net("accept", [&](Net& net) {
    *comm = nullptr;
    const auto made = net.accept(number_of(listener));
    if (!made.ok()) return fail("accept", made.status());
    *comm = made.value();
    return kSuccess;
  });
}

Outcome not_of_host(const char* call) {
  return fail(call, {Code::invalid_usage, "the memory is not the host's"});
}

// NCCL stages the memory of GPUs itself, so only memory of the host comes here, and needs no
// registration.
template <typename Size>
Outcome register_memory(void*, void* data, Size, int type, void** memory) {
  if ((type & kPointers) != type || type == 0) return not_of_host("regMr");
  *memory = data;
  return kSuccess;
}

Outcome register_dma_buffer(void*, void*, size_t, int, uint64_t, int, void**) {
  return not_of_host("regMrDmaBuf");
}

Outcome deregister_memory(void*, void*) {
  return kSuccess;
}

// Peer has said why, unless the other process closed its last connection to this one in order.
Outcome fail_at_end(const char* call, Outcome outcome) {
  tell(kLogWarn, std::string(call) +
                     ": the connection has ended. Unless an earlier line names a fault, the other "
                     "process has closed it.");
  return outcome;
}

template <typename Size>
Outcome send(void* comm, void* data, Size size, int tag, void*, void** request) {
  WireEnd& end = *static_cast<Comm*>(comm)->end();
  *request = nullptr;
  if (size < Size(0) || static_cast<size_t>(size) > limits::kMessageBytesMax) {
    return fail("isend", {Code::invalid_argument,
                          "a message of " + std::to_string(size) + " bytes; at most " +
                              std::to_string(limits::kMessageBytesMax) +
                              " are possible (NCCL_BUFFSIZE is too large)"});
  }
  if (end.outcome() != kSuccess) return fail_at_end("isend", end.outcome());
  *request = end.send({static_cast<const std::byte*>(data), static_cast<size_t>(size)}, tag);
  return kSuccess;
}

template <typename Size>
Outcome send(void* comm, void* data, Size size, int tag, void* memory, void*, void** request) {
  return send(comm, data, size, tag, memory, request);
}

template <typename Size>
Outcome receive(void* comm, int count, void** data, Size* sizes, int* tags, void**,
                void** request) {
  WireEnd& end = *static_cast<Comm*>(comm)->end();
  *request = nullptr;
  std::array<std::span<std::byte>, kReceivesMax> buffers;
  bool good = count >= 1 && static_cast<size_t>(count) <= buffers.size();
  for (size_t i = 0; good && i < static_cast<size_t>(count); ++i) {
    good = sizes[i] >= Size(0);
    if (good) buffers[i] = {static_cast<std::byte*>(data[i]), static_cast<size_t>(sizes[i])};
  }
  if (!good) {
    return fail("irecv",
                {Code::invalid_argument, "it takes 1 to " + std::to_string(buffers.size()) +
                                             " buffers, each of 0 bytes or more"});
  }
  if (end.outcome() != kSuccess) return fail_at_end("irecv", end.outcome());
  *request = end.receive(std::span(buffers).first(static_cast<size_t>(count)), tags);
  return kSuccess;
}

template <typename Size>
Outcome receive(void* comm, int count, void** data, Size* sizes, int* tags, void** memory, void**,
                void** request) {
  return receive(comm, count, data, sizes, tags, memory, request);
}

// Bytes in memory of the host need no flush.
Outcome flush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return kSuccess;
}

// `sizes` has room for the messages of a receive.
Outcome test(void* request, int* done, int* sizes) {
  bool ended = false;
  const Outcome outcome = static_cast<WireEnd::Request*>(request)->test(&ended, sizes);
  *done = ended ? 1 : 0;
  return outcome;
}

Outcome close(void* comm) {
  return with_net("close", [comm](Net& net) {
    net.close(static_cast<Comm*>(comm));
    return kSuccess;
  });
}

Outcome close_listener(void* listener) {
  return with_net("closeListen", [listener](Net& net) {
    net.close_listener(number_of(listener));
    return kSuccess;
  });
}

// The calls of the versions differ in arguments that this plugin does not look at.
Outcome connect(int device, void* handle, void** comm, void**) {
  return connect(device, handle, comm);
}

Outcome connect(int device, void*, void* handle, void** comm, void**) {
  return connect(device, handle, comm);
}

Outcome connect(void*, int device, void* handle, void** comm, void**) {
  return connect(device, handle, comm);
}

Outcome listen(void*, int device, void* handle, void** listener) {
  return listen(device, handle, listener);
}

Outcome accept(void* listener, void** comm, void**) {
  return accept(listener, comm);
}

// Returns the table: the type of each of its members chooses among the functions of its name. Calls
// that a plugin may lack stay null.
template <typename Table>
constexpr Table make_table() {
  Table table{};
  table.name = kName;
  table.init = init;
  table.devices = devices;
  table.getProperties = get_properties;
  table.listen = listen;
  table.connect = connect;
  table.accept = accept;
  table.regMr = register_memory;
  table.regMrDmaBuf = register_dma_buffer;
  table.deregMr = deregister_memory;
  table.isend = send;
  table.irecv = receive;
  table.iflush = flush;
  table.test = test;
  table.closeSend = close;
  table.closeRecv = close;
  table.closeListen = close_listener;
  if constexpr (requires { table.finalize; }) table.finalize = finalize;
  return table;
}

}  // namespace
}  // namespace r2ccl::nccl

namespace n = r2ccl::nccl;

R2CCL_EXPORT const constinit n::TableV6 ncclNetPlugin_v6 = n::make_table<n::TableV6>();
R2CCL_EXPORT const constinit n::TableV7 ncclNetPlugin_v7 = n::make_table<n::TableV7>();
R2CCL_EXPORT const constinit n::TableV8 ncclNetPlugin_v8 = n::make_table<n::TableV8>();
R2CCL_EXPORT const constinit n::TableV9 ncclNetPlugin_v9 = n::make_table<n::TableV9>();
R2CCL_EXPORT const constinit n::TableV10 ncclNetPlugin_v10 = n::make_table<n::TableV10>();
R2CCL_EXPORT const constinit n::TableV11 ncclNetPlugin_v11 = n::make_table<n::TableV11>();
R2CCL_EXPORT const constinit n::TableV12 ncclNetPlugin_v12 = n::make_table<n::TableV12>();
