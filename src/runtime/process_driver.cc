#include "runtime/process_driver.h"

#include <algorithm>
#include <utility>

#include "runtime/connection/cpu_quota.h"

namespace r2ccl {

ProcessDriver::ProcessDriver(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)),
      thread_(std::make_shared<ProgressThread>(transport_->poller(),
                                               static_cast<ProgressDriver&>(*this), clock_)),
      engine_(
          *transport_, clock_, [this] { thread_->run_posted(); }, !has_cpu_quota()) {
  thread_->start();
}

ProcessDriver::~ProcessDriver() {
  thread_->stop();
}

void ProcessDriver::progress(TimeNs wait_max) {
  const TimeNs next = engine_.next_timeout();
  if (next != kNever) wait_max = std::min(wait_max, std::max<TimeNs>(next - clock_.now(), 0));
  engine_.progress(wait_max);
}

}  // namespace r2ccl
