// The processes that have met, as one of them sees it: the links between them, the faults of their
// network with the verdicts on these, and drains. Its communicators share all of that. It lives as
// long as one of them.
//
// Single-threaded: a member of the process's engine, which gives it its passes.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "plan/plan_costs.h"
#include "runtime/admin/drains.h"
#include "runtime/diagnosis/fault_reporter.h"
#include "runtime/engine/members.h"
#include "runtime/engine/process_engine.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/health/nic_health.h"
#include "runtime/job_parts.h"
#include "runtime/link/notice.h"
#include "runtime/query/rank_query.h"

namespace r2ccl {

struct JobOptions {
  EngineOptions engine;
  bool authenticated = false;               // its processes have proved that they have a secret
  DrainRegistry* drain_registry = nullptr;  // the process's; must outlive the job
  bool logs_verdicts = true;                // else one of its parts tells them
};

class Job final : private EngineObserver, private ProcessEngine::Member {
 public:
  // Joins `process`, in its thread, where it also ends. All references must outlive this.
  Job(ProcessEngine& process, Rank self, const JobOptions& options);
  ~Job() override;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // --- the start: open(), describe() and start(), in this order ---
  // Finds the NICs and listens on each. Fails when there is none to use.
  Status open() { return engine_.open(); }
  // Fills in this rank's NICs and listeners.
  void describe(RankInfo& info) const { engine_.describe(info); }
  // Builds the links to the processes that were met. Parts get their calls once this has returned
  // Ok.
  Status start(MetJob met);

  // Its communicators. They come and go between two passes.
  JobParts& parts() { return parts_; }
  // Ends all parts: see RankRuntime.
  void fail_by_exception(const std::exception& error) noexcept;

  Rank self() const override { return self_; }
  ProcessEngine& process() { return process_; }
  ProgressEngine& engine() { return engine_; }
  const ProgressEngine& engine() const { return engine_; }
  // From start() on.
  FaultReporter& fault_reporter() { return *fault_reporter_; }
  // Watches the NICs from the first call on.
  NicHealth& nic_health();
  Drains& drains() { return *drains_; }
  // Its questions about drains and NICs. Those about calls and the status are its communicators'.
  RankQuery& query() { return *query_; }
  // The costs that all its processes have agreed on. None: they have not measured them yet.
  const std::optional<PlanCosts>& costs() const { return costs_; }
  void set_costs(const PlanCosts& costs) { costs_ = costs; }
  const JobOptions& options() const { return options_; }
  // Returns whether its processes may have one more communicator, besides the ones that are being
  // made.
  bool has_room() const;
  // Returns the peers whose links no new communicator can use: either end leaves, or is gone.
  std::vector<Rank> parted() const;
  // Returns whether the paths have had the time to come up.
  bool knows_idle_nics(TimeNs now) const { return now >= idle_nics_from_; }

 private:
  bool works() const { return drains_ != nullptr && !engine_.halted(); }
  void handle(Rank peer, const NoticeView& notice);

  // ProcessEngine::Member
  void progress() override;
  TimeNs next_timeout() override;
  bool busy() const override;
  void on_nics_changed() override { engine_.on_nics_changed(); }
  bool caller_waits_outside(uint64_t comm) const override;
  void on_caller_waits() override;
  void on_exception(const std::exception& error) noexcept override { fail_by_exception(error); }

  // EngineObserver
  void on_path_event(const PathEvent& event) override;
  void on_notice(Rank peer, std::span<const std::byte> bytes) override;
  void on_goodbye(Rank peer) override;
  void on_peer_end(Rank peer, PeerEnd end, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override;
  void on_contradiction(Rank peer, const std::string& why) override;
  bool is_closed(ContextId context, Rank peer) const override {
    return parts_.is_closed(context) || parts_.has_ended(context, peer);
  }
  void on_new_context(ContextId context, Rank peer) override {
    parts_.for_each_with(peer,
                         [&](JobPart& part, Rank rank) { part.on_new_context(rank, context); });
  }

  ProcessEngine& process_;
  const Rank self_;
  const JobOptions options_;
  ProgressEngine engine_;
  JobParts parts_;
  std::unique_ptr<Members> members_;
  std::unique_ptr<const HostNics> host_nics_;
  std::unique_ptr<RankQuery> query_;
  std::unique_ptr<FaultReporter> fault_reporter_;
  std::unique_ptr<NicHealth> nic_health_;
  std::unique_ptr<Drains> drains_;  // last: now it has started
  std::vector<bool> ended_;         // peers
  std::optional<PlanCosts> costs_;
  TimeNs idle_nics_from_ = kNever;  // a NIC that has not served by then is idle
  bool idle_nics_told_ = false;
};

}  // namespace r2ccl
