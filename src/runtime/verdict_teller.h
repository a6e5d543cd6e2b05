// Tells an application of verdicts, in a thread of its own, so that an application that takes its
// time holds up no operation. The thread exists while a callback is set.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/rank_health.h"

namespace r2ccl {

class VerdictTeller {
 public:
  using Tell = std::function<void(const VerdictInfo&)>;
  // Verdicts that wait for `tell`; as many as a rank keeps. Later ones are not told.
  static constexpr size_t kWaitingMax = 10'000;

  // `tell` must not throw, and must not destroy this.
  explicit VerdictTeller(Tell tell);
  // Waits for the call that is under way. Verdicts that still wait are not told.
  ~VerdictTeller();
  VerdictTeller(const VerdictTeller&) = delete;
  VerdictTeller& operator=(const VerdictTeller&) = delete;

  // From any thread; never waits for `tell`.
  void post(VerdictInfo verdict);

 private:
  void run();

  const Tell tell_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<VerdictInfo> waiting_;
  bool stop_ = false;
  std::thread thread_;  // last: uses all others
};

}  // namespace r2ccl
