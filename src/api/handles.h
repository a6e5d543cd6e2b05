// The objects behind the opaque pointers of the C API.
//
// A handle is a number and no address. The table of its kind maps it to an object, and no number is
// used twice. So a copy of a freed handle, or uninitialised memory, gives an error in words; the
// library reads nothing through the pointer. A lookup costs an uncontended lock and a hash, some 50
// ns of an operation that takes tens of microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/registrations.h"
#include "base/types.h"
#include "r2ccl/r2ccl.h"
#include "runtime/communicator.h"
#include "runtime/process_driver.h"

namespace r2ccl::api {

// Returns the number of forks between the process that loaded the library and this one. Cheaper
// than getpid(), which is a system call.
uint32_t fork_generation();

// A forked child has the memory of its parent's objects, but neither threads nor connections.
class OfOneProcess {
 public:
  bool inherited() const { return made_in_ != fork_generation(); }

 private:
  uint32_t made_in_ = fork_generation();
};

// An operation of r2cclRedOpCreatePreMulSum.
struct PreMulSum {
  DataType type = DataType::float32;
  Scalar scalar{};
  const void* source = nullptr;  // not null: each call reads the scalar here
};

struct CommObject : OfOneProcess, std::enable_shared_from_this<CommObject> {
  std::unique_ptr<Communicator> communicator;
  bool finalized = false;                         // under `mutex`
  std::unordered_map<int, PreMulSum> reductions;  // by the operation's number; under `mutex`
  std::mutex mutex;
  Registrations registered;
};

struct RequestObject : OfOneProcess {
  std::shared_ptr<Request> request;
  std::weak_ptr<CommObject> comm;
};

// All handles of one kind in this process. Any thread may call it.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // `mark` tells the kinds apart. It fills the topmost byte, so no handle equals an address that a
  // process can have, and no pointer is mistaken for a handle.
  explicit HandleTable(uint8_t mark) : mark_(static_cast<uintptr_t>(mark) << kMarkShift) {}

  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    live_.emplace(last_ + 1, std::move(object));
    // A number in the shape of a pointer, which nothing dereferences.
    return reinterpret_cast<Handle>(mark_ | ++last_);  // NOLINT(performance-no-int-to-ptr)
  }
  // Returns the object of the handle; null if the handle has none any more, or never had.
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(number_of(handle));
    return found == live_.end() ? nullptr : found->second;
  }
  // Ends the handle and returns its object. If several threads call this, one gets the object.
  std::shared_ptr<Object> take(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto node = live_.extract(number_of(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  // Returns whether add() ever returned this handle.
  bool was_given(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const uintptr_t number = number_of(handle);
    return number != 0 && number <= last_;
  }

  // Held around fork(), so that the child finds a consistent table.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static_assert(sizeof(uintptr_t) == 8, "56 bits are never used up, 24 would be");
  static constexpr int kMarkShift = 56;

  // Returns 0, which add() never uses, for a handle of no kind or of another kind.
  uintptr_t number_of(Handle handle) const {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    constexpr uintptr_t kNumber = (uintptr_t{1} << kMarkShift) - 1;
    return (value & ~kNumber) == mark_ ? value & kNumber : 0;
  }

  const uintptr_t mark_;
  mutable std::mutex mutex_;  // guards the members below; held across fork
  uintptr_t last_ = 0;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> live_;
};

// The drivers of this process, by the settings of their transports. Each lives as long as a
// communicator holds it. Any thread may call it.
class DriverTable {
 public:
  // Returns the living driver with these settings, null if there is none. A forked child never gets
  // its parent's: that one has no thread there.
  std::shared_ptr<ProcessDriver> find(const std::string& settings);
  // Enters `made`, unless another thread has entered one in the meantime. Returns the one to use.
  std::shared_ptr<ProcessDriver> enter(const std::string& settings,
                                       std::shared_ptr<ProcessDriver> made);

  // Held around fork(), as HandleTable.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Entry {
    std::string settings;
    OfOneProcess process;
    std::weak_ptr<ProcessDriver> driver;
  };
  std::shared_ptr<ProcessDriver> find_locked(const std::string& settings);

  std::mutex mutex_;  // guards entries_; held across fork
  std::vector<Entry> entries_;
};

DriverTable& drivers();
HandleTable<r2cclComm_t, CommObject>& comms();
HandleTable<r2cclRequest_t, RequestObject>& requests();

}  // namespace r2ccl::api
