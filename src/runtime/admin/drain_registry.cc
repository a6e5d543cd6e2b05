#include "runtime/admin/drain_registry.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/fork_guard.h"

namespace r2ccl {
namespace {

// Never destroyed, because a communicator may still exist at exit.
std::mutex& books() {
  static auto* const instance = new std::mutex;
  return *instance;
}

void before_fork() {
  books().lock();
}
void after_fork() {
  books().unlock();
}

// A child has only the thread that forked it. If another thread held the lock, it would stay locked
// for ever.
std::lock_guard<std::mutex> lock_books() {
  // Tried again by the next caller if it throws.
  [[maybe_unused]] static const bool registered = [] {
    at_fork(before_fork, after_fork, after_fork);
    return true;
  }();
  return std::lock_guard(books());
}

}  // namespace

DrainRegistry::DrainRegistry() {
  (void)lock_books();
}

void DrainRegistry::remove(const void* holder, const HostId& host, const std::string& nic) {
  std::erase_if(entries_, [&](const Entry& each) {
    return each.holder == holder && each.process == getpid() && each.host == host &&
           each.drained.nic == nic;
  });
}

void DrainRegistry::enter(const void* holder, const HostId& host, const DrainedNic& drained) {
  const auto lock = lock_books();
  remove(holder, host, drained.nic);
  entries_.push_back({holder, getpid(), host, drained});
}

void DrainRegistry::strike(const void* holder, const HostId& host, const std::string& nic) {
  const auto lock = lock_books();
  remove(holder, host, nic);
}

void DrainRegistry::forget(const void* holder) {
  const auto lock = lock_books();
  std::erase_if(entries_, [&](const Entry& each) {
    return each.holder == holder && each.process == getpid();
  });
}

std::vector<DrainedNic> DrainRegistry::drained(const HostId& host) const {
  std::vector<DrainedNic> nics;
  const auto lock = lock_books();
  for (const Entry& each : entries_) {
    if (each.process != getpid() || each.host != host) continue;
    const auto known = std::ranges::find(nics, each.drained.nic, &DrainedNic::nic);
    if (known == nics.end()) {
      nics.push_back(each.drained);
    } else if (known->ticket != each.drained.ticket) {
      known->ticket = 0;
    }
  }
  return nics;
}

}  // namespace r2ccl
