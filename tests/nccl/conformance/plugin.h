// The plugin's tables behind one interface, so that a case drives each of them alike.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "nccl/abi.h"

namespace conformance {

using r2ccl::nccl::Outcome;

inline constexpr int kVersionMin = 6;
inline constexpr int kVersionMax = 12;

// The properties that all versions have, and the largest message of those that name one.
struct Properties {
  std::string name;
  int pointers = 0;
  int speed = 0;
  int comms_max = 0;
  int receives_max = 0;
  int device_type = 0;
  size_t message_max = 0;  // 0: this version does not say it
};

// A request that the plugin takes for a hint: nobody waits for the end of this receive.
inline void* const kOptional = reinterpret_cast<void*>(uintptr_t{1});

// The functions of a table, in the words of NCCL.
class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual Outcome init() = 0;
  // Versions up to 10 have no end: kSuccess.
  virtual Outcome finalize() = 0;
  virtual bool has_contexts() const = 0;
  virtual bool has_hint() const = 0;
  virtual Outcome devices(int* count) = 0;
  virtual Outcome properties(int device, Properties* properties) = 0;
  virtual Outcome listen(int device, void* handle, void** listener) = 0;
  virtual Outcome connect(int device, void* handle, void** comm) = 0;
  virtual Outcome accept(void* listener, void** comm) = 0;
  virtual Outcome register_memory(void* comm, void* data, size_t size, int type, void** memory) = 0;
  virtual Outcome deregister_memory(void* comm, void* memory) = 0;
  virtual Outcome send(void* comm, void* data, size_t size, int tag, void** request) = 0;
  // One buffer, one size and one tag for each of `count` messages.
  virtual Outcome receive(void* comm, int count, void** data, const size_t* sizes, int* tags,
                          void** request) = 0;
  virtual Outcome flush(void* comm, void* data, int size, void** request) = 0;
  virtual Outcome test(void* request, int* done, int* sizes) = 0;
  virtual Outcome close_send(void* comm) = 0;
  virtual Outcome close_receive(void* comm) = 0;
  virtual Outcome close_listener(void* listener) = 0;
};

// Loads the library, and returns its table of that version. Throws when there is none.
std::unique_ptr<Plugin> load_plugin(const std::string& path, int version);

// The lines of level WARN since the last call. The plugin gets the logger of this file.
std::vector<std::string> take_warnings();

}  // namespace conformance
