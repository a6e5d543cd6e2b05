#include "base/clock.h"

#include <ctime>

namespace r2ccl {
namespace {

TimeNs read_clock(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return static_cast<TimeNs>(time.tv_sec) * kSecond + time.tv_nsec;
}

}  // namespace

TimeNs SystemClock::now() const {
  return read_clock(CLOCK_MONOTONIC);
}
TimeNs SystemClock::wall() const {
  return read_clock(CLOCK_REALTIME);
}

}  // namespace r2ccl
