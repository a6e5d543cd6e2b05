// Waits for events by polling for a short time before it sleeps: competitive spinning (Karlin et
// al., "Empirical Studies of Competitive Spinning for a Shared-Memory Multiprocessor", SOSP 1991).
// A sleep and its wake-up cost both ends more than a message of a small operation does, in virtual
// machines tens of microseconds.
//
// It must cost others nothing. So it yields the core between polls, and rests where spinning does
// not pay: after waits that no event ended in time, and after another thread's long turn on the
// core. It never spins under a CPU quota, which spinning would use up.
//
// The bound is on this thread's own time. While other ranks share the core, a yield gives it to the
// one that has work, and costs two switches; a sleep would cost the peer a wake-up as well. So the
// turns of others do not count, or a job with more ranks than cores would always sleep.
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "runtime/connection/reactor.h"

namespace r2ccl {

class SpinWait {
 public:
  // About the time of a sleep and its wake-up in a virtual machine: a spin in vain at most doubles
  // the cost of a wait.
  static constexpr TimeNs kSpin = 100 * kMicrosecond;
  // The part of a yield that counts: more time than that, some other thread has had.
  static constexpr TimeNs kYield = 1 * kMicrosecond;
  // The other ranks of the job that share the core have a shorter turn together. After a longer
  // one, of a thread that computes, the next waits sleep: the kernel lets a sleeper that wakes
  // preempt such a thread, but not a thread that has yielded.
  static constexpr TimeNs kTurn = 1 * kMillisecond;
  // The most waits without a spin after one in vain.
  static constexpr uint32_t kRestMax = 256;

  // `allowed` false: always sleeps. `clock` must be real time that goes on between polls. `yield`
  // gives the core to another thread that is ready.
  SpinWait(const Clock& clock, bool allowed, std::function<void()> yield = std::this_thread::yield)
      : clock_(clock), allowed_(allowed), yield_(std::move(yield)) {}

  // As Reactor::poll.
  size_t poll(Reactor& reactor, TimeNs timeout_ns);

 private:
  bool spins();
  size_t found(size_t events);
  void note_vain(uint32_t weight);

  const Clock& clock_;
  const bool allowed_;
  const std::function<void()> yield_;
  uint32_t waits_to_rest_ = 0;  // <= rest_
  uint32_t rest_ = 0;           // <= kRestMax: doubles with each spin in vain
};

}  // namespace r2ccl
