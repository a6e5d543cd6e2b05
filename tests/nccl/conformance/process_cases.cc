// The plugin beside other code in its process, in a forked child, and when the other process ends.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <thread>

#include "conformance/case.h"
#include "conformance/transfers.h"
#include "r2ccl/r2ccl.h"

namespace conformance {
namespace {

using namespace r2ccl::nccl;

void tells_that_the_other_process_has_ended(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  const Ends idle = connect(side, *plugin);
  Handle own{};
  void* listener = nullptr;
  succeed(plugin->listen(0, own.data(), &listener), "listen");
  const auto theirs = side.exchange(own);
  const pid_t other = side.other();
  if (!side.first()) Side::vanish();
  const Memory source(8 << 20), target(8 << 20);
  void* send = post_send(*plugin, ends.send, source, source.size());
  void* receive = post_receive(*plugin, ends.receive, target);
  side.expect_end();
  CONFORMANCE_CHECK(failure_of(*plugin, receive) == kRemoteError);
  CONFORMANCE_CHECK(failure_of(*plugin, send) == kRemoteError);
  CONFORMANCE_CHECK(failure_of(*plugin, receive) == kRemoteError);  // NCCL 2.22 asks again
  expect_warning("process " + std::to_string(other));
  for (const Ends& each : {ends, idle}) {
    void* request = nullptr;
    CONFORMANCE_CHECK(plugin->send(each.send, source.data(), 10, 0, &request) == kRemoteError);
    CONFORMANCE_CHECK(request == nullptr);
    close(*plugin, each);
  }
  Handle handle{};
  std::copy(theirs.begin(), theirs.end(), handle.begin());
  Outcome outcome = kSuccess;
  until("connect fails", [&] {
    void* comm = nullptr;
    outcome = plugin->connect(0, handle.data(), &comm);
    return outcome != kSuccess;
  });
  CONFORMANCE_CHECK(outcome == kRemoteError);
  expect_warning("connect");
  succeed(plugin->close_listener(listener), "closeListen");
  const Ends here = connect_here(*plugin, *plugin);
  trade(*plugin, here, {1000}, 1);
  close(*plugin, here);
  succeed(plugin->finalize(), "finalize");
}

// A DataLoader's worker, say: it ends without a word to the peers, or begins anew.
[[maybe_unused]] void bears_forks(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  trade(*plugin, ends, {100'000}, 1);
  for (const bool begins : {false, true}) {
    const pid_t process = fork();
    CONFORMANCE_CHECK(process >= 0);
    if (process == 0) {
      int failed = 0;
      try {
        if (begins) {
          const auto again = begin(settings);
          const Ends own = connect_here(*again, *again);
          trade(*again, own, {1000, 100'000}, 5);
          close(*again, own);
          succeed(again->finalize(), "finalize");
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "in the child: %s\n", error.what());
        failed = 1;
      }
      std::exit(failed);
    }
    trade(*plugin, ends, {100'000}, 2);
    int status = 0;
    CONFORMANCE_CHECK(waitpid(process, &status, 0) == process && status == 0);
    trade(*plugin, ends, {100'000}, 3);
  }
  const Ends more = connect(side, *plugin);
  trade(*plugin, more, {1000}, 4);
  close(*plugin, more);
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

template <typename Function>
Function* function_of(void* library, const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw Failure(std::string("no function ") + name);
  return function;
}

// libr2ccl.so has an engine of its own in the process.
void shares_the_process_with_libr2ccl(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  void* library = dlopen(settings.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Failure(dlerror());
  r2cclUniqueId id{};
  if (side.first()) {
    auto* get_id = function_of<decltype(r2cclGetUniqueId)>(library, "r2cclGetUniqueId");
    CONFORMANCE_CHECK(get_id(&id) == r2cclSuccess);
  }
  const auto theirs = side.exchange(std::as_bytes(std::span(&id, 1)));
  if (!side.first()) std::memcpy(&id, theirs.data(), sizeof id);
  r2cclComm_t comm = nullptr;
  auto* init = function_of<decltype(r2cclCommInitRank)>(library, "r2cclCommInitRank");
  CONFORMANCE_CHECK(init(&comm, 2, id, side.first() ? 0 : 1) == r2cclSuccess);
  const Ends ends = connect(side, *plugin);
  std::exception_ptr error;
  std::thread reduces([&] {
    try {
      auto* reduce = function_of<decltype(r2cclAllReduce)>(library, "r2cclAllReduce");
      for (int round = 0; round < 40; ++round) {
        std::vector<float> values(20'000, side.first() ? 1.0F : 2.0F);
        CONFORMANCE_CHECK(reduce(values.data(), values.data(), values.size(), r2cclFloat32,
                                 r2cclSum, comm, nullptr) == r2cclSuccess);
        for (const float value : values) CONFORMANCE_CHECK(value == 3.0F);
      }
    } catch (...) {
      error = std::current_exception();
    }
  });
  for (unsigned round = 0; round < 40; ++round) trade(*plugin, ends, {0, 100'000, 1000}, round);
  reduces.join();
  if (error != nullptr) std::rethrow_exception(error);
  close(*plugin, ends);
  auto* destroy = function_of<decltype(r2cclCommDestroy)>(library, "r2cclCommDestroy");
  CONFORMANCE_CHECK(destroy(comm) == r2cclSuccess);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

}  // namespace

std::vector<Case> process_cases() {
  std::vector<Case> cases = {
      {"tells_that_the_other_process_has_ended",
       tells_that_the_other_process_has_ended,
       {{"R2CCL_INIT_TIMEOUT_S", "1"}},
       Runs::on_core},
      {"shares_the_process_with_libr2ccl", shares_the_process_with_libr2ccl, {}, Runs::on_core}};
  // ThreadSanitizer permits no threads in a forked child.
#ifndef __SANITIZE_THREAD__
  cases.push_back({"bears_forks", bears_forks, {}, Runs::on_core});
#endif
  return cases;
}

}  // namespace conformance
