#include "runtime/verdict_teller.h"

#include <utility>

#include "base/signals_blocked.h"

namespace r2ccl {

VerdictTeller::VerdictTeller(Tell tell) : tell_(std::move(tell)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

VerdictTeller::~VerdictTeller() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void VerdictTeller::post(VerdictInfo verdict) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() == kWaitingMax) return;
    waiting_.push_back(std::move(verdict));
  }
  changed_.notify_one();
}

void VerdictTeller::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const VerdictInfo verdict = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    tell_(verdict);
    lock.lock();
  }
}

}  // namespace r2ccl
