#include "runtime/drain_book.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/check.h"

namespace r2ccl {
namespace {

// Never destroyed: at exit a communicator may still be there.
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

// A child has but the thread that forked it: held by another one, the lock would be held for ever.
std::lock_guard<std::mutex> lock_books() {
  static const int error = pthread_atfork(before_fork, after_fork, after_fork);
  R2CCL_CHECK(error == 0);
  return std::lock_guard(books());
}

}  // namespace

void DrainBook::note(const void* holder, const HostId& host, const std::string& nic, bool drained) {
  const Entry entry{holder, getpid(), host, nic};
  const auto lock = lock_books();
  std::erase(entries_, entry);
  if (drained) entries_.push_back(entry);
}

void DrainBook::forget(const void* holder) {
  const auto lock = lock_books();
  std::erase_if(entries_, [&](const Entry& each) {
    return each.holder == holder && each.process == getpid();
  });
}

std::vector<std::string> DrainBook::drained(const HostId& host) const {
  std::vector<std::string> nics;
  const auto lock = lock_books();
  for (const Entry& each : entries_) {
    const bool known = std::ranges::find(nics, each.nic) != nics.end();
    if (each.process == getpid() && each.host == host && !known) nics.push_back(each.nic);
  }
  return nics;
}

}  // namespace r2ccl
