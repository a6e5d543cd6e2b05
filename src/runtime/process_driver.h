// Drives all communicators of a process that use the same NICs: one transport, one engine and one
// progress thread for all of them. A caller that waits in one communicator drives all.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "runtime/engine/process_engine.h"
#include "runtime/engine/progress_thread.h"
#include "runtime/known_jobs.h"
#include "transport/transport.h"

namespace r2ccl {

class ProcessDriver final : private ProgressDriver {
 public:
  // Starts the progress thread.
  explicit ProcessDriver(std::unique_ptr<Transport> transport);
  // Ends the progress thread. Requires that no RankRuntime is left.
  ~ProcessDriver() override;

  const Clock& clock() const { return clock_; }
  const std::shared_ptr<ProgressThread>& thread() { return thread_; }
  // In the driving thread only.
  ProcessEngine& engine() { return engine_; }
  KnownJobs& jobs() { return jobs_; }

 private:
  // ProgressDriver
  void progress(TimeNs wait_max) override;
  bool busy() const override { return engine_.busy(); }
  void on_exception(const std::exception& error) noexcept override { engine_.on_exception(error); }

  const std::unique_ptr<Transport> transport_;
  SystemClock clock_;
  const std::shared_ptr<ProgressThread> thread_;  // also of requests, which may live longer
  ProcessEngine engine_;
  KnownJobs jobs_;
};

}  // namespace r2ccl
