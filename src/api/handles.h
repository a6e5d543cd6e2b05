// What the C API's opaque pointers point to.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "runtime/communicator.h"

struct r2cclComm {
  std::unique_ptr<r2ccl::Communicator> communicator;
  pid_t owner = 0;         // a forked child has the memory but neither thread nor connections
  bool finalized = false;  // under `mutex`
  std::mutex mutex;
};

struct r2cclRequest {
  std::shared_ptr<r2ccl::Request> request;
  r2cclComm* comm = nullptr;
};
