// Waits for events by polling for a short time before it sleeps: competitive spinning (Karlin et
// al., "Empirical Studies of Competitive Spinning for a Shared-Memory Multiprocessor", SOSP 1991).
// A sleep and its wake-up cost both ends more than a message of a small operation does, in virtual
// machines tens of microseconds.
//
// It must cost others nothing. So it yields the core between polls, and rests where spinning does
// not pay: after waits that no event ended in time, and after another thread's long turn on the
// core. It never spins under a CPU quota, which spinning would use up.
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "runtime/connection/reactor.h"

namespace r2ccl {

class SpinWait {
 public:
  // About the time of a sleep and its wake-up: a spin in vain at most doubles the cost of a wait.
  static constexpr TimeNs kSpin = 50 * kMicrosecond;
  // Another rank of the job that shares the core has a shorter turn. After a longer one, of a
  // thread that computes, the next waits sleep: the kernel lets a sleeper that wakes preempt such a
  // thread, but not a thread that has yielded.
  static constexpr TimeNs kTurn = 300 * kMicrosecond;
  // The most waits without a spin after one in vain.
  static constexpr uint32_t kRestMax = 256;

  // `allowed` false: always sleeps. `clock` must be real time that goes on between polls.
  SpinWait(const Clock& clock, bool allowed) : clock_(clock), allowed_(allowed) {}

  // As Reactor::poll.
  size_t poll(Reactor& reactor, TimeNs timeout_ns);

 private:
  bool spins();
  size_t found(size_t events);
  void note_vain(uint32_t weight);

  const Clock& clock_;
  const bool allowed_;
  uint32_t waits_to_rest_ = 0;  // <= rest_
  uint32_t rest_ = 0;           // <= kRestMax: doubles with each spin in vain
};

// Returns whether a CPU quota (cgroup cpu.max) bounds this process, so that the time of a spin is
// taken from its work.
bool has_cpu_quota();

}  // namespace r2ccl
