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
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/admin/drains.h"
#include "runtime/diagnosis/fault_reporter.h"
#include "runtime/early_notices.h"
#include "runtime/engine/process_engine.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"

namespace r2ccl {

// A communicator of a job. Calls come from inside passes. A `peer` is a number of the job, a `rank`
// one of the communicator.
class JobPart {
 public:
  virtual ~JobPart() = default;
  // Returns kNoRank if the process is not one of its members.
  virtual Rank rank_of(Rank peer) const = 0;
  virtual bool has_context(ContextId context) const = 0;
  // Returns whether it needs the link to one of its members: it has neither left it nor failed.
  virtual bool needs(Rank rank) const = 0;

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

  // Of its members.
  virtual void on_path_event(const PathEvent& event) = 0;
  virtual void on_notice(Rank rank, const NoticeView& notice, std::span<const std::byte> bytes) = 0;
  virtual void on_goodbye(Rank rank) = 0;
  virtual void on_peer_end(Rank rank, PeerEnd end, const std::string& why) = 0;
  virtual void on_contradiction(Rank rank, const std::string& why) = 0;
  virtual void on_verdict(size_t place) = 0;

  // Returns whether one of its calls has given this memory.
  virtual bool uses(const BadMemory& bad) const = 0;
  virtual void on_bad_memory(const BadMemory& bad) = 0;
  // All parts end because of the error: first each takes note of it, and has reserved what the
  // peers are to hear; then the engine has halted.
  virtual void on_exception(const std::exception& error) noexcept = 0;
  virtual void on_halted() noexcept = 0;

  // As ProcessEngine::Member.
  virtual bool caller_waits_outside(uint64_t comm) const = 0;
  virtual void on_caller_waits() = 0;
};

struct JobOptions {
  EngineOptions engine;
  DrainRegistry* drain_registry = nullptr;  // the process's; must outlive the job
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

  // --- its communicators, between two passes ---
  void add(JobPart& part);
  // The part's contexts are closed for ever.
  void remove(JobPart& part);
  // The peer has no more to say in this context, nor this end: their link forgets it.
  void close(ContextId context, Rank peer);
  // Marks the context as closed at this end. A link keeps it until its peer is done with it, too.
  void close(ContextId context);
  // Gives the part the notices that came before it was there.
  void hand_over_notices(JobPart& part);
  // Returns whether no communicator has had this number.
  bool is_new(ContextId context) const;
  // Returns whether another part makes calls.
  bool goes_on_without(const JobPart& part) const;
  // Returns whether a part other than this one needs the link.
  bool needed_by_others(Rank peer, const JobPart& part) const;
  size_t parts() const { return parts_.size(); }
  // Ends all parts: see RankRuntime.
  void fail_by_exception(const std::exception& error) noexcept;

  ProcessEngine& process() { return process_; }
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
  void handle(Rank peer, const NoticeView& notice);
  void route(Rank peer, const NoticeView& notice, std::span<const std::byte> bytes);
  template <typename Call>
  void for_parts_with(Rank peer, const Call& call);
  template <typename Test>
  bool any_part_with(Rank peer, const Test& test) const;

  // ProcessEngine::Member
  Rank self() const override { return self_; }
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
  bool is_closed(ContextId context) const override;

  ProcessEngine& process_;
  const Rank self_;
  DrainRegistry* const drain_registry_;
  ProgressEngine engine_;
  std::vector<JobPart*> parts_;
  std::vector<ContextId> closed_;  // in ascending order
  EarlyNotices early_notices_;
  std::unique_ptr<FaultReporter> fault_reporter_;
  std::unique_ptr<Drains> drains_;  // last: now it has started
  std::vector<bool> ended_;         // peers that have left or died
  TimeNs idle_nics_from_ = kNever;  // a NIC that has not served by then is idle
  bool idle_nics_told_ = false;
};

}  // namespace r2ccl
