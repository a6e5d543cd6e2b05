// The tables by which NCCL calls a net plugin, versions 6 to 12, as facts of their binary
// interface: the order and the types of members. Names of functions are NCCL's. docs/nccl.md says
// which NCCL takes which version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace r2ccl::nccl {

// ncclResult_t
enum Outcome : int {
  kSuccess = 0,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
};

inline constexpr size_t kHandleBytes = 128;
// The requests of one connection at a time.
inline constexpr size_t kRequestsMax = 32;
// The messages of one receive, each with a tag of its own.
inline constexpr size_t kReceivesMax = 8;
// NCCL_PTR_HOST, NCCL_PTR_CUDA
inline constexpr int kPointerHost = 1;
inline constexpr int kPointerGpu = 2;

// ncclDebugLogger_t, with the levels and the subsystem that this plugin uses.
enum LogLevelOfNccl : int { kLogWarn = 2, kLogInfo = 3 };
inline constexpr unsigned long kSubsystemNet = 16;
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

struct PropertiesV6 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
};

struct PropertiesV7 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
};

struct PropertiesV8 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
};

template <int kDevices>
struct VirtualDevice {
  int ndevs;
  int devs[kDevices];
};

struct PropertiesV9 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VirtualDevice<4> vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
};
using PropertiesV10 = PropertiesV9;

struct PropertiesV11 {
  PropertiesV9 common;
  int maxMultiRequestSize;
};

struct PropertiesV12 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VirtualDevice<8> vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
  int maxMultiRequestSize;
  int16_t railId;
  int16_t planeId;
};

// The device handle of an offload, the configuration of a communicator and its attributes are
// passed on by pointer, and this plugin reads none of them.
struct TableV6 {
  const char* name;
  Outcome (*init)(Logger log);
  Outcome (*devices)(int* count);
  Outcome (*getProperties)(int device, PropertiesV6* properties);
  Outcome (*listen)(int device, void* handle, void** listenComm);
  Outcome (*connect)(int device, void* handle, void** sendComm);
  Outcome (*accept)(void* listenComm, void** recvComm);
  Outcome (*regMr)(void* comm, void* data, int size, int type, void** memory);
  Outcome (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                         void** memory);
  Outcome (*deregMr)(void* comm, void* memory);
  Outcome (*isend)(void* sendComm, void* data, int size, int tag, void* memory, void** request);
  Outcome (*irecv)(void* recvComm, int count, void** data, int* sizes, int* tags, void** memory,
                   void** request);
  Outcome (*iflush)(void* recvComm, int count, void** data, int* sizes, void** memory,
                    void** request);
  Outcome (*test)(void* request, int* done, int* sizes);
  Outcome (*closeSend)(void* sendComm);
  Outcome (*closeRecv)(void* recvComm);
  Outcome (*closeListen)(void* listenComm);
};

// Versions 7 and 8 differ in the type of the properties and of regMr's size.
template <typename Properties, typename Size>
struct TableV7OrV8 {
  const char* name;
  Outcome (*init)(Logger log);
  Outcome (*devices)(int* count);
  Outcome (*getProperties)(int device, Properties* properties);
  Outcome (*listen)(int device, void* handle, void** listenComm);
  Outcome (*connect)(int device, void* handle, void** sendComm, void** deviceComm);
  Outcome (*accept)(void* listenComm, void** recvComm, void** deviceComm);
  Outcome (*regMr)(void* comm, void* data, Size size, int type, void** memory);
  Outcome (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                         void** memory);
  Outcome (*deregMr)(void* comm, void* memory);
  Outcome (*isend)(void* sendComm, void* data, int size, int tag, void* memory, void** request);
  Outcome (*irecv)(void* recvComm, int count, void** data, int* sizes, int* tags, void** memory,
                   void** request);
  Outcome (*iflush)(void* recvComm, int count, void** data, int* sizes, void** memory,
                    void** request);
  Outcome (*test)(void* request, int* done, int* sizes);
  Outcome (*closeSend)(void* sendComm);
  Outcome (*closeRecv)(void* recvComm);
  Outcome (*closeListen)(void* listenComm);
  Outcome (*getDeviceMr)(void* comm, void* memory, void** deviceMemory);
  Outcome (*irecvConsumed)(void* recvComm, int count, void* request);
};
using TableV7 = TableV7OrV8<PropertiesV7, int>;
using TableV8 = TableV7OrV8<PropertiesV8, size_t>;

struct TableV9 {
  const char* name;
  Outcome (*init)(Logger log);
  Outcome (*devices)(int* count);
  Outcome (*getProperties)(int device, PropertiesV9* properties);
  Outcome (*listen)(int device, void* handle, void** listenComm);
  Outcome (*connect)(int device, void* handle, void** sendComm, void** deviceComm);
  Outcome (*accept)(void* listenComm, void** recvComm, void** deviceComm);
  Outcome (*regMr)(void* comm, void* data, size_t size, int type, void** memory);
  Outcome (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                         void** memory);
  Outcome (*deregMr)(void* comm, void* memory);
  Outcome (*isend)(void* sendComm, void* data, size_t size, int tag, void* memory, void** request);
  Outcome (*irecv)(void* recvComm, int count, void** data, size_t* sizes, int* tags, void** memory,
                   void** request);
  Outcome (*iflush)(void* recvComm, int count, void** data, int* sizes, void** memory,
                    void** request);
  Outcome (*test)(void* request, int* done, int* sizes);
  Outcome (*closeSend)(void* sendComm);
  Outcome (*closeRecv)(void* recvComm);
  Outcome (*closeListen)(void* listenComm);
  Outcome (*getDeviceMr)(void* comm, void* memory, void** deviceMemory);
  Outcome (*irecvConsumed)(void* recvComm, int count, void* request);
  Outcome (*makeVDevice)(int* device, void* properties);
};

struct TableV10 {
  const char* name;
  Outcome (*init)(Logger log, void* profiler);
  Outcome (*devices)(int* count);
  Outcome (*getProperties)(int device, PropertiesV10* properties);
  Outcome (*listen)(int device, void* handle, void** listenComm);
  Outcome (*connect)(int device, void* config, void* handle, void** sendComm, void** deviceComm);
  Outcome (*accept)(void* listenComm, void** recvComm, void** deviceComm);
  Outcome (*regMr)(void* comm, void* data, size_t size, int type, void** memory);
  Outcome (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                         void** memory);
  Outcome (*deregMr)(void* comm, void* memory);
  Outcome (*isend)(void* sendComm, void* data, size_t size, int tag, void* memory, void* profile,
                   void** request);
  Outcome (*irecv)(void* recvComm, int count, void** data, size_t* sizes, int* tags, void** memory,
                   void** profile, void** request);
  Outcome (*iflush)(void* recvComm, int count, void** data, int* sizes, void** memory,
                    void** request);
  Outcome (*test)(void* request, int* done, int* sizes);
  Outcome (*closeSend)(void* sendComm);
  Outcome (*closeRecv)(void* recvComm);
  Outcome (*closeListen)(void* listenComm);
  Outcome (*getDeviceMr)(void* comm, void* memory, void** deviceMemory);
  Outcome (*irecvConsumed)(void* recvComm, int count, void* request);
  Outcome (*makeVDevice)(int* device, void* properties);
};

// Versions 11 and 12 differ in the type of the properties.
template <typename Properties>
struct TableV11OrV12 {
  const char* name;
  Outcome (*init)(void** context, uint64_t commId, void* config, Logger log, void* profiler);
  Outcome (*devices)(int* count);
  Outcome (*getProperties)(int device, Properties* properties);
  Outcome (*listen)(void* context, int device, void* handle, void** listenComm);
  Outcome (*connect)(void* context, int device, void* handle, void** sendComm, void** deviceComm);
  Outcome (*accept)(void* listenComm, void** recvComm, void** deviceComm);
  Outcome (*regMr)(void* comm, void* data, size_t size, int type, void** memory);
  Outcome (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                         void** memory);
  Outcome (*deregMr)(void* comm, void* memory);
  Outcome (*isend)(void* sendComm, void* data, size_t size, int tag, void* memory, void* profile,
                   void** request);
  Outcome (*irecv)(void* recvComm, int count, void** data, size_t* sizes, int* tags, void** memory,
                   void** profile, void** request);
  Outcome (*iflush)(void* recvComm, int count, void** data, int* sizes, void** memory,
                    void** request);
  Outcome (*test)(void* request, int* done, int* sizes);
  Outcome (*closeSend)(void* sendComm);
  Outcome (*closeRecv)(void* recvComm);
  Outcome (*closeListen)(void* listenComm);
  Outcome (*getDeviceMr)(void* comm, void* memory, void** deviceMemory);
  Outcome (*irecvConsumed)(void* recvComm, int count, void* request);
  Outcome (*makeVDevice)(int* device, void* properties);
  Outcome (*finalize)(void* context);
  Outcome (*setNetAttr)(void* context, void* attributes);
};
using TableV11 = TableV11OrV12<PropertiesV11>;
using TableV12 = TableV11OrV12<PropertiesV12>;

}  // namespace r2ccl::nccl
