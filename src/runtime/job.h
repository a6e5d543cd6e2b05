// The processes that have met, as one of them sees it: the links between them, the faults of their
// network with the verdicts on these, and drains. Its communicators share all of that.
//
// Single-threaded: a member of the process's engine, which gives it its passes.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/admin/drains.h"
#include "runtime/diagnosis/fault_reporter.h"
#include "runtime/engine/process_engine.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

// A communicator of a job. Calls come from inside passes.
class JobPart {
 public:
  virtual ~JobPart() = default;
  // A pass begins: its events have been read, and nothing else has happened in it.
  virtual void begin_pass() = 0;
  // The links have had their pass.
  virtual void after_links() = 0;
  // The links and the job have had theirs.
  virtual void progress(TimeNs now) = 0;
  virtual TimeNs next_timeout() = 0;
  virtual bool busy() const = 0;
  // Returns whether it makes no more calls, or has failed: then the other ranks may end as they
  // like.
  virtual bool leaving() const = 0;
  virtual bool failed() const = 0;

  virtual void on_path_event(const PathEvent& event) = 0;
  // Gets each notice, also those that the job has handled.
  virtual void on_notice(Rank peer, std::span<const std::byte> bytes) = 0;
  virtual void on_goodbye(Rank peer) = 0;
  virtual void on_peer_end(Rank peer, PeerEnd end, const std::string& why) = 0;
  virtual void on_bad_memory(const BadMemory& bad) = 0;
  virtual void on_contradiction(Rank peer, const std::string& why) = 0;
  virtual void on_verdict(size_t place) = 0;
  virtual void on_exception(const std::exception& error) noexcept = 0;

  // As ProcessEngine::Member.
  virtual uint64_t caller_waits_in() const = 0;
  virtual void on_caller_waits() = 0;
};

struct JobOptions {
  EngineOptions engine;
  DrainRegistry* drain_registry = nullptr;  // the process's; must outlive the job
};

class Job final : private EngineObserver, private ProcessEngine::Member {
 public:
  // Joins `process`, in its thread. All references must outlive this.
  Job(ProcessEngine& process, Rank self, const JobOptions& options, JobPart& part);
  ~Job() override;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // --- the start: open(), describe() and start(), in this order ---
  // Finds the NICs and listens on each. Fails when there is none to use.
  Status open() { return engine_.open(); }
  // Fills in this rank's NICs and listeners.
  void describe(RankInfo& info) const { engine_.describe(info); }
  // Builds the links to the ranks that were met. The part gets its calls once this has returned Ok.
  Status start(MetJob met);

  ProgressEngine& engine() { return engine_; }
  const ProgressEngine& engine() const { return engine_; }
  // From start() on.
  FaultReporter& fault_reporter() { return *fault_reporter_; }
  Drains& drains() { return *drains_; }
  // Returns whether the paths have had the time to come up.
  bool knows_idle_nics(TimeNs now) const { return now >= idle_nics_from_; }

 private:
  bool works() const { return drains_ != nullptr && !engine_.halted(); }
  void tell_idle_nics();
  void handle(Rank peer, std::span<const std::byte> notice);

  // ProcessEngine::Member
  Rank self() const override { return self_; }
  void progress() override;
  TimeNs next_timeout() override;
  bool busy() const override { return works() && (part_.busy() || engine_.has_unsent()); }
  void on_nics_changed() override { engine_.on_nics_changed(); }
  uint64_t caller_waits_in() const override { return part_.caller_waits_in(); }
  void on_caller_waits() override { part_.on_caller_waits(); }
  void on_exception(const std::exception& error) noexcept override { part_.on_exception(error); }

  // EngineObserver
  void on_path_event(const PathEvent& event) override;
  void on_notice(Rank peer, std::span<const std::byte> bytes) override;
  void on_goodbye(Rank peer) override;
  void on_peer_end(Rank peer, PeerEnd end, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override { part_.on_bad_memory(bad); }
  void on_contradiction(Rank peer, const std::string& why) override {
    part_.on_contradiction(peer, why);
  }

  ProcessEngine& process_;
  const Rank self_;
  JobPart& part_;
  DrainRegistry* const drain_registry_;
  ProgressEngine engine_;
  std::unique_ptr<FaultReporter> fault_reporter_;
  std::unique_ptr<Drains> drains_;  // last: now it has started
  std::vector<bool> ended_;         // ranks that have left or died
  TimeNs idle_nics_from_ = kNever;  // a NIC that has not served by then is idle
  bool idle_nics_told_ = false;
};

}  // namespace r2ccl
