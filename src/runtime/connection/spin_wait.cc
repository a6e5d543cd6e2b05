#include "runtime/connection/spin_wait.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace r2ccl {
namespace {

// The paths where a container sees its own group: cgroup v2, and v1's controller.
constexpr const char* kQuotaV2 = "/sys/fs/cgroup/cpu.max";
constexpr const char* kQuotaV1 = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us";

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Returns the directory of this process's group, "" when it is the root or not known.
std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/") && line.size() > 4) return "/sys/fs/cgroup" + line.substr(3);
  }
  return "";
}

}  // namespace

bool has_cpu_quota() {
  const std::string group = own_group();
  for (const std::string& path : {std::string(kQuotaV2), group + "/cpu.max"}) {
    const std::string quota = first_word(path);
    if (!quota.empty() && quota != "max") return true;
  }
  const std::string quota = first_word(kQuotaV1);
  return !quota.empty() && quota != "-1";
}

bool SpinWait::spins() {
  if (!allowed_) return false;
  if (waits_to_rest_ == 0) return true;
  --waits_to_rest_;
  return false;
}

size_t SpinWait::found(size_t events) {
  rest_ = 0;
  return events;
}

void SpinWait::note_vain(uint32_t weight) {
  rest_ = std::min(2 * rest_ + weight, kRestMax);
  waits_to_rest_ = rest_;
}

size_t SpinWait::poll(Reactor& reactor, TimeNs timeout_ns) {
  if (timeout_ns <= 0 || !spins()) return reactor.poll(timeout_ns);
  const TimeNs began = clock_.now();
  const TimeNs spin = std::min(kSpin, timeout_ns);
  TimeNs now = began;
  TimeNs turn = 0;  // of the other threads on this core, since the last poll
  while (now - began < spin && turn <= kTurn) {
    const TimeNs last = now;
    if (const size_t events = reactor.poll(0); events > 0) return found(events);
    sched_yield();
    now = clock_.now();
    turn = now - last;
  }
  // The other thread may have been the peer.
  if (const size_t events = reactor.poll(0); events > 0) return found(events);
  note_vain(turn > kTurn ? kRestMax / 8 : 1);
  return reactor.poll(timeout_ns == kNever ? kNever
                                           : std::max<TimeNs>(timeout_ns - (now - began), 0));
}

}  // namespace r2ccl
