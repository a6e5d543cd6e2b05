// The objects behind the opaque pointers of the C API.
//
// A handle is a number and no address: the table of its kind says which object it stands for, and a
// number is given only once. So a copy of a handle that was freed, or memory that was never
// initialised, is an error in words; nothing is read through the pointer. A lookup costs a lock
// without contention and a hash, some 50 ns of an operation that takes tens of microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "r2ccl/r2ccl.h"
#include "runtime/communicator.h"

namespace r2ccl::api {

// How many forks this process is away from the one that loaded the library. Cheaper than getpid(),
// which is a system call.
uint32_t fork_generation();

// A forked child has the memory of its parent's objects, but neither threads nor connections.
class OfOneProcess {
 public:
  bool inherited() const { return made_in_ != fork_generation(); }

 private:
  uint32_t made_in_ = fork_generation();
};

struct CommObject : OfOneProcess, std::enable_shared_from_this<CommObject> {
  std::unique_ptr<Communicator> communicator;
  bool finalized = false;  // under `mutex`
  std::mutex mutex;
};

struct RequestObject : OfOneProcess {
  std::shared_ptr<Request> request;
  std::weak_ptr<CommObject> comm;
};

// All handles of one kind in this process. May be called by any thread.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // `mark` tells the kinds apart. With it in the topmost byte no handle is an address that a
  // process can have, so that a pointer to something is no handle either.
  explicit HandleTable(uint8_t mark) : mark_(static_cast<uintptr_t>(mark) << kMarkShift) {}

  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    live_.emplace(last_ + 1, std::move(object));
    return reinterpret_cast<Handle>(mark_ | ++last_);
  }
  // Null when it stands for nothing, or no longer.
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(number_of(handle));
    return found == live_.end() ? nullptr : found->second;
  }
  // Ends the handle; of several threads one is given the object.
  std::shared_ptr<Object> take(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto node = live_.extract(number_of(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  // Whether it was ever returned by add().
  bool was_given(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const uintptr_t number = number_of(handle);
    return number != 0 && number <= last_;
  }

  // Around fork(), so that the child finds the table whole.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static_assert(sizeof(Handle) == 8, "56 bits are never used up, 24 would be");
  static constexpr int kMarkShift = 56;

  // 0, which is never given: it is of no or another kind.
  uintptr_t number_of(Handle handle) const {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    constexpr uintptr_t kNumber = (uintptr_t{1} << kMarkShift) - 1;
    return (value & ~kNumber) == mark_ ? value & kNumber : 0;
  }

  const uintptr_t mark_;
  mutable std::mutex mutex_;  // guards what follows; held across fork
  uintptr_t last_ = 0;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> live_;
};

HandleTable<r2cclComm_t, CommObject>& comms();
HandleTable<r2cclRequest_t, RequestObject>& requests();

}  // namespace r2ccl::api
