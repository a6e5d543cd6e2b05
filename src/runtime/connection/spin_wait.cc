#include "runtime/connection/spin_wait.h"

#include <algorithm>

namespace r2ccl {

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
  TimeNs now = began;
  TimeNs spent = 0;  // what this thread has used
  TimeNs turn = 0;   // of the other threads on this core, since the last poll
  while (spent < kSpin && now - began < timeout_ns && turn <= kTurn) {
    const TimeNs last = now;
    if (const size_t events = reactor.poll(0); events > 0) return found(events);
    const TimeNs polled = clock_.now();
    yield_();
    now = clock_.now();
    turn = now - polled;
    spent += (polled - last) + std::min(turn, kYield);
  }
  // The other thread may have been the peer.
  if (const size_t events = reactor.poll(0); events > 0) return found(events);
  note_vain(turn > kTurn ? kRestMax / 8 : 1);
  return reactor.poll(timeout_ns == kNever ? kNever
                                           : std::max<TimeNs>(timeout_ns - (now - began), 0));
}

}  // namespace r2ccl
