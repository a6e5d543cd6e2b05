// The threads that drive a rank, as the requests of its callers see them.
#pragma once

#include <functional>

#include "base/clock.h"

namespace r2ccl {

// Legal in any thread that does not drive.
class RequestDriver {
 public:
  virtual ~RequestDriver() = default;
  // Returns true as soon as `done` holds at the end of a turn, false after `timeout` (kNever: no
  // bound) or when the driver is stopped. The caller drives meanwhile, unless another thread does.
  // The driving thread calls `done`, which must be short.
  virtual bool wait_until(const std::function<bool()>& done, TimeNs timeout) = 0;
  // Returns true when nobody will drive any more.
  virtual bool stopped() = 0;
  // Makes the thread that drives, or the next one to do so, take its next turn at once.
  virtual void wake() = 0;
};

}  // namespace r2ccl
