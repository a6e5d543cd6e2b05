#include "api/handles.h"

#include <pthread.h>

#include <atomic>

#include "api/memory.h"
#include "base/check.h"

namespace r2ccl::api {
namespace {

struct Tables {
  std::atomic<uint32_t> generation{0};  // written in a child that has a single thread
  HandleTable<r2cclComm_t, CommObject> comms{0xc5};
  HandleTable<r2cclRequest_t, RequestObject> requests{0xa7};
  DriverTable drivers;
  GivenMemory memory;
};

// Returns the tables of this process. Never destroyed: at exit a communicator may still exist, and
// in a forked child the parent's communicators always do.
Tables& tables() {
  static Tables* const instance = new Tables;
  return *instance;
}

void before_fork() {
  tables().comms.lock();
  tables().requests.lock();
  tables().drivers.lock();
  tables().memory.lock();
}
void after_fork() {
  tables().memory.unlock();
  tables().drivers.unlock();
  tables().requests.unlock();
  tables().comms.unlock();
}
void after_fork_in_child() {
  tables().generation.fetch_add(1, std::memory_order_relaxed);
  after_fork();
}

Tables& guarded_tables() {
  // Tried again by the next caller if it throws.
  [[maybe_unused]] static const bool registered = [] {
    at_fork(before_fork, after_fork, after_fork_in_child);
    return true;
  }();
  return tables();
}

}  // namespace

uint32_t fork_generation() {
  return guarded_tables().generation.load(std::memory_order_relaxed);
}
DriverTable& drivers() {
  return guarded_tables().drivers;
}
HandleTable<r2cclComm_t, CommObject>& comms() {
  return guarded_tables().comms;
}
HandleTable<r2cclRequest_t, RequestObject>& requests() {
  return guarded_tables().requests;
}

GivenMemory& given_memory() {
  return guarded_tables().memory;
}

std::shared_ptr<ProcessDriver> DriverTable::find(const std::string& settings) {
  const std::lock_guard lock(mutex_);
  return find_locked(settings);
}

std::shared_ptr<ProcessDriver> DriverTable::find_locked(const std::string& settings) {
  for (const Entry& entry : entries_) {
    if (entry.settings != settings || entry.process.inherited()) continue;
    if (std::shared_ptr<ProcessDriver> living = entry.driver.lock()) return living;
  }
  return nullptr;
}

std::shared_ptr<ProcessDriver> DriverTable::enter(const std::string& settings,
                                                  std::shared_ptr<ProcessDriver> made) {
  const std::lock_guard lock(mutex_);
  if (std::shared_ptr<ProcessDriver> other = find_locked(settings)) return other;
  // An inherited entry names a driver that the child must not touch: only its own have ended.
  std::erase_if(entries_, [](const Entry& entry) {
    return entry.process.inherited() || entry.driver.expired();
  });
  entries_.push_back({settings, {}, made});
  return made;
}

}  // namespace r2ccl::api
