#include "api/handles.h"

#include <pthread.h>

#include <atomic>

#include "base/check.h"

namespace r2ccl::api {
namespace {

struct Tables {
  std::atomic<uint32_t> generation{0};  // written in a child that has a single thread
  HandleTable<r2cclComm_t, CommObject> comms{0xc5};
  HandleTable<r2cclRequest_t, RequestObject> requests{0xa7};
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
}
void after_fork() {
  tables().requests.unlock();
  tables().comms.unlock();
}
void after_fork_in_child() {
  tables().generation.fetch_add(1, std::memory_order_relaxed);
  after_fork();
}

Tables& guarded_tables() {
  static const int error = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  R2CCL_CHECK(error == 0);
  return tables();
}

}  // namespace

uint32_t fork_generation() {
  return guarded_tables().generation.load(std::memory_order_relaxed);
}
HandleTable<r2cclComm_t, CommObject>& comms() {
  return guarded_tables().comms;
}
HandleTable<r2cclRequest_t, RequestObject>& requests() {
  return guarded_tables().requests;
}

}  // namespace r2ccl::api
