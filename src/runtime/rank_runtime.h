// One rank of a communicator: its operations, its notices to the other ranks, its answers to an
// operator, and its end. It is a part of the process's job, which has the links and may have other
// communicators. A communicator drives it from a thread, the simulator from an actor; both run the
// same code.
//
// Single-threaded: no thread, no lock and no clock in here. The job is a member of the process's
// engine, which has clock and transport and gives the passes. Operations end by callbacks, from
// inside progress(), fail(), abort() or the call that starts them.
//
// The class has more than 40 functions because each kind of event from the engine ends here and
// each part has an accessor; the parts hold all the state that can be held apart.
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
#include "runtime/collective/cost_meter.h"
#include "runtime/collective/operations.h"
#include "runtime/engine/farewells.h"
#include "runtime/engine/members.h"
#include "runtime/failure_notice.h"
#include "runtime/job.h"
#include "runtime/link/notice.h"
#include "runtime/link/user_memory.h"
#include "runtime/query/rank_query.h"
#include "runtime/rank_waits.h"
#include "runtime/shrink/rank_shrinks.h"
#include "runtime/views/rank_views.h"
#include "transport/transport.h"

namespace r2ccl {

class RankStatus;

struct RankOptions {
  Rank self;
  int32_t rank_count = 0;
  std::string name;  // of the communicator, for messages; empty: it has none
  JobIdentity job;
  EngineOptions engine;
  uint32_t library_version = 0;             // R2CCL_VERSION_CODE, which only the API's edge knows
  DrainRegistry* drain_registry = nullptr;  // the process's; must outlive the runtime
  // Stands between the operations and a link; the result must outlive the runtime. None: the link
  // itself.
  std::function<MessagePort*(Link& link)> port;
  // Plans take ranks with equal numbers for ranks of one host. Empty: those of one host. The
  // simulator sets others, so that plans for shared hosts meet the faults of a network between all
  // ranks.
  std::vector<uint32_t> plan_hosts;
  // Plans are by these costs until measure_costs() has ended. Ranks must have the same ones.
  PlanCosts plan_costs;
  // Links that the measurement of costs uses open their data connections at the start. False, for
  // tests: every link does when it is first used.
  bool data_at_start = true;
  // The ranks agree on the hosts' bandwidth, and plans follow it.
  bool views = true;
  View first_view;  // at the start; all ranks must have the same one
  // A rank that has not called waits in vain for a smaller communicator after this time.
  TimeNs shrink_patience = 300 * kSecond;
};

// Told of each event after the runtime has acted on it. Calls come from inside the runtime and
// must not destroy it.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  // A pass begins: its events have been read, and nothing else has happened in it. The time to
  // start operations.
  virtual void on_pass() {}
  virtual void on_pass_end() {}
  virtual void on_path_event(const PathEvent&) {}
  virtual void on_notice(Rank, std::span<const std::byte>) {}
  virtual void on_peer_end(Rank, PeerEnd) {}
  // The verdict at this place of the list is new, or has replaced a less precise one.
  virtual void on_verdict(size_t) {}
  // The rank has failed, at most once. Its operations have not ended yet.
  virtual void on_failure(const Status&) {}
};

class RankRuntime final : private JobPart {
 public:
  // Memory of a call's buffers that cannot be touched. Then the rank fails, and the call with it:
  // this rank cannot do its part, and the others must not wait for it.
  using MaybeBad = std::optional<BadMemory>;

  // The first communicator of a new job, which joins `process` in its thread. All must outlive
  // this.
  RankRuntime(ProcessEngine& process, RankOptions options, RankObserver& observer);
  // A further communicator of a job. It does not use `engine` and `drain_registry` of the options,
  // and `job` for no key.
  RankRuntime(std::shared_ptr<Job> job, RankOptions options, RankObserver& observer);
  // Ends all unfinished operations, with their callbacks. The last part of a job ends the job.
  ~RankRuntime() override;
  RankRuntime(const RankRuntime&) = delete;
  RankRuntime& operator=(const RankRuntime&) = delete;

  // --- the start: open(), describe() and start(), in this order ---
  // Finds the NICs and listens on each. Fails when there is none to use.
  Status open() { return job_->open(); }
  // Fills in this rank's NICs and listeners.
  void describe(RankInfo& info) const { job_->describe(info); }
  // Builds the links to the ranks that were met; they connect in progress(). Everything below is
  // legal once this has returned Ok.
  Status start(MetJob met);
  // Instead of these, for a further communicator: rank i is the process peers[i] of the job. All
  // ranks give the same `context`, which no other communicator of the job has had. If it fails,
  // or throws std::bad_alloc, the other ranks are told, and this object may only be destroyed.
  Status join(ContextId context, std::vector<Rank> peers);

  // Measures the costs of messages and bytes among the ranks, and agrees with them. All ranks call
  // it once, when every link is up, and start collectives once costs_agreed() is true.
  void measure_costs();
  bool costs_agreed() const { return costs_agreed_; }
  const PlanCosts& costs() const { return operations_->costs(); }
  // Returns the ranks that the measurement waits for.
  std::vector<Rank> unmeasured() const { return cost_meter_->waits_on(); }

  // Starts an operation. Returns the number of the call, as Operations.
  uint64_t start(Operation&& operation, const MaybeBad& bad = {});

  // --- smaller communicators ---
  // Asks the ranks but these, which are in ascending order, for a communicator of their own. Legal
  // after a failure, too, and while no earlier call waits.
  Status begin_shrink(std::vector<Rank> excluded);
  // Null: no rank has called.
  const RankShrinks* shrinks() const { return shrinks_.get(); }
  // A communicator without these ranks has been made: their farewells are not waited for.
  void waive(const std::vector<Rank>& excluded);

  // --- the end ---
  // This rank makes no more calls: fails when a Send or Recv to itself has no counterpart, or a
  // tagged message no Recv, else says goodbye to every peer. Legal when no other operation is
  // unfinished.
  void begin_goodbye();
  // A rank that finalizes gives its calls so long to end before close_calls().
  static constexpr TimeNs kCloseCallsAfter = 1 * kSecond;
  // Ends the calls of this rank, though some are unfinished. If the calls of two ranks can never
  // match, the job fails.
  void close_calls() { waits_->close(); }
  bool leaving() const override { return leaving_; }
  // A caller waits in this communicator for long, or no more. As long as one does, the ranks of
  // this process in other communicators answer the goodbye of a rank that has left.
  void set_caller_waits(bool waits);
  // Every peer has said goodbye too, or has ended.
  bool goodbye_done() const;
  // Each rank whose farewell is not waited for has this one's.
  bool waived_told() const;
  std::vector<Rank> goodbyes_missing() const;
  // Ends every operation with `why` and tells the other ranks. The first cause counts.
  void fail(const Status& why);
  void abort(const std::string& why);
  // Fails all parts of the job because this class or a callback threw, mostly for want of memory.
  // Its state may be half-way through a change, so nothing of it runs any more, and needs no memory
  // itself: the operations end, and the engine halts and tells the peers with what start() has
  // reserved.
  void fail_by_exception(const std::exception& error) noexcept { job_->fail_by_exception(error); }
  // Legal after that are: the rest of this paragraph, reports, passes and the destructor.
  bool halted() const { return engine_.halted(); }
  // Returns Ok, or the cause that ended the rank.
  const Status& failure() const { return failure_; }
  // It failed because a rank left while another one waited for it.
  bool abandoned() const { return abandoned_; }
  // Every rank that needs to be told of the failure has been: the connections may close.
  bool failure_known() const;
  // Returns whether the links end with it.
  bool last_of_job() const { return !job_->parts().has_others(*this); }
  // Returns whether another communicator makes calls over the links.
  bool links_go_on() const { return job_->parts().go_on_without(*this); }

  // --- its parts, and for reports ---
  ProgressEngine& engine() { return engine_; }
  Members& members() { return *members_; }
  const Operations& operations() const { return *operations_; }
  Operations& operations() { return *operations_; }
  Job& job() { return *job_; }
  const std::shared_ptr<Job>& shared_job() { return job_; }
  FaultReporter& fault_reporter() { return job_->fault_reporter(); }
  Drains& drains() { return job_->drains(); }
  RankQuery& query() { return *query_; }
  RankWaits& waits() { return *waits_; }
  const RankViews* views() const { return views_.get(); }  // null: plans follow no views
  RankStatus& status() { return *rank_status_; }
  const RankOptions& options() const { return options_; }
  const Clock& clock() const { return clock_; }
  TimeNs started_at() const { return started_at_; }
  // Returns whether the paths have had the time to come up.
  bool knows_idle_nics(TimeNs now) const { return job_->knows_idle_nics(now); }
  // Tells communicators apart; the same on all ranks, and public.
  uint64_t comm_id() const { return comm_id_; }
  // A rank in words, for messages.
  std::string name_of(Rank rank) const { return members_->name_of(rank); }
  // " on communicator "dp"", or empty.
  std::string on_communicator() const;

 private:
  void begin(std::unique_ptr<Members> members);
  void handle_mismatches();
  void leave(Rank rank);
  Status check_joinable(Members& members) const;
  void tell_refusal(Members& members, const Status& why) const;
  void prepare_measurement(const std::vector<MessagePort*>& ports, const HostGroups& hosts);
  void close_contexts();
  RankShrinks& make_shrinks();
  void refuse_ghosts();
  ShrinkOutcome end_of(Rank rank) const;
  bool gone(Rank rank) const;
  void detach(const Status& why);
  void tell_end();
  uint64_t contexts() const;
  void answer_departed();
  void answer(Rank rank);

  // rank_failure.cc
  void fail_of(std::vector<Rank> ranks, Code code, const std::string& why);
  bool fail_here(const Status& why);
  void fail_departed(const Status& why);
  void tell_failure(const Failure& failure);
  void on_failure_notice(Rank rank, Failure failure);
  Failure of_members(Failure failure) const;
  std::string no_memory_text() const;
  void reserve_end_of(Failure failure);
  Status cause_of(const std::exception& error) noexcept;
  void check_departed();
  void refuse_buffer(const BufferUse& use, const BadMemory& bad);

  // JobPart
  Rank rank_of(Rank peer) const override { return started() ? members_->rank_of(peer) : kNoRank; }
  bool has_context(ContextId context) const override {
    return started() && context >= members_->context() &&
           context.value() - members_->context().value() < contexts();
  }
  // After a failure a smaller communicator may need it.
  bool needs(Rank rank) const override { return !failure_.ok() || !farewells_->begun(rank); }
  bool misses(Rank rank) const override { return failure_.ok() && !farewells_->ended(rank); }
  void begin_pass() override { observer_.on_pass(); }
  void progress(TimeNs now) override;
  TimeNs next_timeout() override;
  bool busy() const override {
    return !operations_->idle_but_local() || (cost_meter_ != nullptr && !cost_meter_->idle());
  }
  bool failed() const override { return !failure_.ok(); }
  bool caller_waits_outside(uint64_t comm) const override {
    return (caller_waits_ || collective_waits_) && comm != comm_id_;
  }
  void on_caller_waits() override { answer_departed(); }
  bool uses(const BadMemory& bad) const override {
    return operations_->find_buffer(bad).has_value();
  }
  void on_exception(const std::exception& error) noexcept override;
  void on_halted() noexcept override;
  void on_verdict(size_t place) override { observer_.on_verdict(place); }
  bool started() const { return rank_status_ != nullptr; }

  void on_path_event(const PathEvent& event) override;
  void on_notice(Rank rank, const NoticeView& notice, std::span<const std::byte> bytes) override;
  void on_goodbye(Rank rank) override;
  void on_peer_end(Rank rank, PeerEnd end, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override;
  void on_contradiction(Rank rank, const std::string& why) override;
  void handle(Rank rank, const NoticeView& notice);

  const RankOptions options_;
  RankObserver& observer_;
  const std::shared_ptr<Job> job_;
  ProgressEngine& engine_;  // the job's
  const Clock& clock_;
  const TimeNs started_at_;
  uint64_t comm_id_ = 0;
  // From start() or join() on; each may use those before it.
  std::unique_ptr<Members> members_;
  std::unique_ptr<Farewells> farewells_;
  std::unique_ptr<const HostMap> other_hosts_;  // null: options_.plan_hosts is empty
  std::unique_ptr<Operations> operations_;
  std::unique_ptr<RankViews> views_;       // null: options_.views is false
  std::unique_ptr<CostMeter> cost_meter_;  // null: the costs are given
  std::unique_ptr<RankQuery> query_;
  std::unique_ptr<RankWaits> waits_;
  std::unique_ptr<RankShrinks> shrinks_;  // null: no rank has called
  std::unique_ptr<RankStatus> rank_status_;

  std::vector<bool> departed_;  // ranks that said goodbye
  bool any_departed_ = false;
  std::vector<bool> informed_;  // ranks that said that the job has failed
  bool leaving_ = false;        // this rank makes no more calls
  bool caller_waits_ = false;
  bool collective_waits_ = false;  // for long; its caller may only ask whether it is complete
  bool costs_agreed_ = false;
  Status failure_;
  Status no_memory_ = Status::out_of_memory();  // the cause of a failure for want of memory
  bool abandoned_ = false;
};

}  // namespace r2ccl
