// For tests: a network namespace of the test's own, and iproute2 in it.
#pragma once

#include <sched.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace r2ccl {

// Runs `body` on a thread with a network of its own; returns false when this user may not have one.
template <typename Body>
bool in_new_network(Body&& body) {
  bool entered = false;
  std::thread([&] {
    entered = unshare(CLONE_NEWNET) == 0;
    if (entered) body();
  }).join();
  return entered;
}

inline bool has_iproute2() {
  return std::system("command -v ip >/dev/null") == 0;
}

// Returns the exit status of the command `ip` with these arguments.
inline int ip(const std::string& arguments) {
  return std::system(("ip " + arguments).c_str());
}

}  // namespace r2ccl
