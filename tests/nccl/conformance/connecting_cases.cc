// listen, connect and accept.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>

#include "conformance/case.h"
#include "conformance/transfers.h"

namespace conformance {
namespace {

using namespace r2ccl::nccl;

Handle as_handle(const std::vector<std::byte>& bytes) {
  Handle handle{};
  CONFORMANCE_CHECK(bytes.size() == handle.size());
  std::copy(bytes.begin(), bytes.end(), handle.begin());
  return handle;
}

// Connects by a handle of the other process's, which accepts at its listener at the same time.
Ends connect_by(Plugin& plugin, Handle& handle, void* listener) {
  Ends ends;
  until("connect and accept", [&] {
    if (ends.send == nullptr) succeed(plugin.connect(0, handle.data(), &ends.send), "connect");
    if (ends.receive == nullptr) succeed(plugin.accept(listener, &ends.receive), "accept");
    return ends.send != nullptr && ends.receive != nullptr;
  });
  return ends;
}

// The other process is stopped, so whatever waits for it waits for ever.
void never_blocks(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  Handle own{};
  void* listener = nullptr;
  succeed(plugin->listen(0, own.data(), &listener), "listen");
  Handle theirs = as_handle(side.exchange(own));
  const pid_t other = side.other();
  if (side.first()) {
    until("the other process stops", [&] {
      std::string pid, name, state;
      std::ifstream("/proc/" + std::to_string(other) + "/stat") >> pid >> name >> state;
      return state == "T";
    });
    void* comm = nullptr;
    for (int i = 0; i < 60; ++i) {
      succeed(plugin->connect(0, theirs.data(), &comm), "connect");
      CONFORMANCE_CHECK(comm == nullptr);
      succeed(plugin->accept(listener, &comm), "accept");
      CONFORMANCE_CHECK(comm == nullptr);
      poll(nullptr, 0, 1);
    }
    kill(other, SIGCONT);
  } else {
    raise(SIGSTOP);
  }
  const Ends ends = connect_by(*plugin, theirs, listener);
  trade(*plugin, ends, {1000}, 1);
  close(*plugin, ends);
  succeed(plugin->close_listener(listener), "closeListen");
  succeed(plugin->finalize(), "finalize");
}

// NCCL keeps a listener for several connections, and gives a fresh copy of the handle to each.
// Other plugins' tests use one buffer again after a connection is there.
void accepts_many(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  Handle own{};
  void* listener = nullptr;
  succeed(plugin->listen(0, own.data(), &listener), "listen");
  const Handle theirs = as_handle(side.exchange(own));
  Handle kept = theirs;
  std::vector<Ends> all;
  for (int i = 0; i < 8; ++i) {
    Handle fresh = theirs;
    all.push_back(connect_by(*plugin, fresh, listener));
    all.push_back(connect_by(*plugin, kept, listener));
  }
  // Several attempts at once.
  std::vector<Handle> handles(8, theirs);
  std::vector<Ends> more(handles.size());
  until("connect and accept", [&] {
    bool all_there = true;
    for (size_t i = 0; i < more.size(); ++i) {
      if (more[i].send == nullptr) {
        succeed(plugin->connect(0, handles[i].data(), &more[i].send), "connect");
      }
      if (more[i].receive == nullptr) succeed(plugin->accept(listener, &more[i].receive), "accept");
      all_there = all_there && more[i].send != nullptr && more[i].receive != nullptr;
    }
    return all_there;
  });
  succeed(plugin->close_listener(listener), "closeListen");
  for (size_t i = 0; i < all.size(); ++i) trade(*plugin, all[i], {i, 5000}, 1);
  // The n-th of several that are asked for at once need not be the n-th that is accepted.
  const Memory source(10), target(10);
  std::vector<void*> receives;
  for (const Ends& ends : more) receives.push_back(post_receive(*plugin, ends.receive, target));
  for (const Ends& ends : more) finish(*plugin, post_send(*plugin, ends.send, source, 10));
  for (void* request : receives) CONFORMANCE_CHECK(finish(*plugin, request) == 10);
  for (const Ends& ends : all) close(*plugin, ends);
  for (const Ends& ends : more) close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// All connections between two processes share one link.
void shares_sockets(Side& side, const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const auto plugin = begin(settings);
  const size_t none = count_sockets();
  const auto settled = [&](size_t bound) {
    until("sockets of connects close", [&] { return count_sockets() <= bound; });
  };
  std::vector<Ends> all;
  const auto connect_one_more = [&] {
    const auto began = Clock::now();
    all.push_back(connect(side, *plugin));
    return Clock::now() - began;
  };
  const auto first = connect_one_more();
  trade(*plugin, all[0], {1000, 1'000'000}, 1);
  side.meet();
  size_t one = count_sockets();
  until("the sockets of the first connect close", [&, at = Clock::now()]() mutable {
    if (count_sockets() != one) one = count_sockets(), at = Clock::now();
    return Clock::now() > at + std::chrono::milliseconds(100);
  });
  std::vector<Clock::duration> times;
  while (all.size() < 64) times.push_back(connect_one_more());
  for (const Ends& ends : all) trade(*plugin, ends, {100}, 2);
  side.meet();
  settled(one);
  std::sort(times.begin(), times.end());
  const auto us = [](auto time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  if (side.first()) {
    std::printf(
        "     64 connections each way: %zu sockets as for one, first %ld us, then median "
        "%ld us, at most %ld us\n",
        one - none, us(first), us(times[times.size() / 2]), us(times.back()));
  }
  for (const Ends& ends : all) close(*plugin, ends);
  settled(none);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// Neither descriptors nor threads grow with the connections that have been.
void leaves_nothing(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const size_t before = count_descriptors();
  for (unsigned round = 0; round < 8; ++round) {
    const Ends ends = connect(side, *plugin);
    trade(*plugin, ends, {10, 200'000}, round);
    close(*plugin, ends);
    until("descriptors close", [&] { return count_descriptors() <= before; });
  }
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

void serves_threads(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  std::vector<Ends> all;
  for (int i = 0; i < 4; ++i) all.push_back(connect(side, *plugin));
  std::vector<std::exception_ptr> errors(all.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        for (unsigned round = 0; round < 25; ++round) {
          trade(*plugin, all[i], {1, 0, 30'000, 200'000}, static_cast<unsigned>(i) + 100 * round);
          const Ends own = connect_here(*plugin, *plugin);
          trade(*plugin, own, {100}, round);
          close(*plugin, own);
        }
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
  for (const Ends& ends : all) close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

Outcome connect_in_vain(Plugin& plugin, Handle& handle) {
  Outcome outcome = kSuccess;
  until("connect fails", [&] {
    void* comm = nullptr;
    outcome = plugin.connect(0, handle.data(), &comm);
    CONFORMANCE_CHECK(comm == nullptr);
    return outcome != kSuccess;
  });
  return outcome;
}

void refuses_bad_handles(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  Handle own{};
  void* listener = nullptr;
  succeed(plugin->listen(0, own.data(), &listener), "listen");
  Handle theirs = as_handle(side.exchange(own));
  const auto expect = [&](Handle handle, Outcome outcome, const char* words) {
    CONFORMANCE_CHECK(connect_in_vain(*plugin, handle) == outcome);
    expect_warning(words);
  };
  Handle handle{};
  expect(handle, kInvalidArgument, "not one of this r2ccl plugin");
  handle.fill(std::byte{0xff});
  expect(handle, kInvalidArgument, "not one of this r2ccl plugin");
  for (size_t i = 0; i < handle.size(); ++i) handle[i] = static_cast<std::byte>(i * 37 + 11);
  expect(handle, kInvalidArgument, "not one of this r2ccl plugin");
  handle = theirs;
  handle[4] = std::byte{99};  // the version
  expect(handle, kInvalidArgument, "not one of this r2ccl plugin");
  handle = theirs;
  handle[5] = std::byte{200};  // the number of addresses
  expect(handle, kInvalidArgument, "not one of this r2ccl plugin");
  handle = theirs;
  handle.back() = std::byte{1};  // an attempt that is none of this process's
  expect(handle, kInvalidUsage, "connect");
  handle = theirs;
  handle[6] ^= std::byte{0x40};  // another listener
  expect(handle, kRemoteError, "nobody listens");
  handle = theirs;
  handle[30] ^= std::byte{1};  // the secret
  expect(handle, kRemoteError, "connect");
  const Ends ends = connect_by(*plugin, theirs, listener);
  trade(*plugin, ends, {1000}, 1);
  close(*plugin, ends);
  succeed(plugin->close_listener(listener), "closeListen");
  side.meet();
  theirs = as_handle(side.exchange(own));
  expect(theirs, kRemoteError, "nobody listens");
  side.meet();
  succeed(plugin->finalize(), "finalize");
}

}  // namespace

std::vector<Case> connecting_cases() {
  return {
      {"never_blocks", never_blocks, {{"R2CCL_INIT_TIMEOUT_S", "300"}}},
      {"accepts_many", accepts_many, {}, Runs::on_core},
      {"shares_sockets", shares_sockets, {}, Runs::on_core},
      {"leaves_nothing", leaves_nothing, {}, Runs::on_core},
      {"serves_threads", serves_threads, {}, Runs::on_core},
      {"refuses_bad_handles", refuses_bad_handles, {{"R2CCL_INIT_TIMEOUT_S", "1"}}, Runs::on_core}};
}

}  // namespace conformance
