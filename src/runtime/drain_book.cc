#include "runtime/drain_book.h"

#include <unistd.h>

#include <algorithm>

namespace r2ccl {

void DrainBook::note(const void* holder, const HostId& host, const std::string& nic, bool drained) {
  const Entry entry{holder, getpid(), host, nic};
  std::lock_guard lock(mutex_);
  std::erase(entries_, entry);
  if (drained) entries_.push_back(entry);
}

void DrainBook::forget(const void* holder) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& each) {
    return each.holder == holder && each.process == getpid();
  });
}

std::vector<std::string> DrainBook::drained(const HostId& host) const {
  std::vector<std::string> nics;
  std::lock_guard lock(mutex_);
  for (const Entry& each : entries_) {
    const bool known = std::ranges::find(nics, each.nic) != nics.end();
    if (each.process == getpid() && each.host == host && !known) nics.push_back(each.nic);
  }
  return nics;
}

}  // namespace r2ccl
