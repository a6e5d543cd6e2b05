// A rank for callers in any thread: a queue of calls, and the requests that wait for their ends.
// Everything that a rank does is in its RankRuntime. The driver of the process runs it, together
// with those of the other communicators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/child_numbers.h"
#include "runtime/collective/request.h"
#include "runtime/communicator_options.h"
#include "runtime/process_driver.h"
#include "runtime/rank_health.h"
#include "runtime/rank_runtime.h"
#include "runtime/verdict_teller.h"
#include "transport/transport.h"

namespace r2ccl {

// The costs by which plans are chosen, and the view of the hosts' bandwidth.
struct Inherited {
  PlanCosts plan_costs;
  View view;
};

class Communicator final : private RankObserver {
 public:
  // Meets the other ranks, and connects to all of them unless all are in a job already, whose links
  // it then uses; blocks. `meeting`: for the rendezvous, which the calling thread runs.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<ProcessDriver> driver,
                                                      Transport& meeting,
                                                      const CommunicatorOptions& options);
  // Makes a communicator of these ranks of `parent`, in this order, over the links of its job;
  // meets nobody. All of them give the same `context`. `parent` must not end meanwhile.
  static Result<std::unique_ptr<Communicator>> create_child(Communicator& parent,
                                                            const CommunicatorOptions& options,
                                                            ContextId context,
                                                            std::span<const Rank> members);
  // The last communicator of a job closes the connections. Call finalize() or abort() before.
  ~Communicator() override;

  Rank rank() const { return options_.self; }
  int32_t rank_count() const { return options_.rank_count; }
  const CommunicatorOptions& options() const { return options_; }
  // Returns a secret that only processes of this communicator can compute. It differs for each
  // `id`, which is public.
  LockedBytes child_secret(std::span<const std::byte, kJobIdBytes> id);

  // The numbers of the communicators that come from this one.
  ChildNumbers& children() { return *children_; }
  // Returns what a communicator of these ranks begins with. `view`: that of an operation of this
  // one, the same on all ranks; empty: none is known.
  Inherited inherit(const View& view, std::span<const Rank> ranks);

  // Starts an operation. The communicator chooses the algorithm of a collective. `operation.done`
  // is called before the request is complete, in the driving thread; it may be empty. `bad`: as
  // RankRuntime.
  using MaybeBad = std::optional<BadMemory>;
  std::shared_ptr<Request> start(Operation operation, const MaybeBad& bad = {});
  // Runs an AllReduce of the words in place, for a call that makes communicators of these ranks.
  // Sets *view to the view of its plan, which is the same one on all ranks.
  Status exchange(std::span<int64_t> words, View* view, std::string name);
  // Lets the calls that have begun go on without a caller that waits. Without this they do so too,
  // a little later.
  void hand_over() { thread().hand_over(); }
  // The same after one call. A small operation goes on in this thread, as far as it can at once.
  void advance(const Request& started);

  // Returns a descriptor that is readable after an operation has completed or the communicator has
  // failed, until the caller reads it. It ends with the communicator.
  Result<int> completion_descriptor() { return awaited_->completions().descriptor(); }

  // Agrees with all ranks but these, which are in ascending order, to make a communicator of their
  // own. It is to be made by create_child() then, with the number and the view that this returns.
  // Blocks. Legal after a failure, too.
  struct Shrunk {
    ContextId context;
    View view;
  };
  Result<Shrunk> agree_without(const std::vector<Rank>& excluded);

  // Waits for all operations and for the goodbye of every rank, no longer than for a cut-off host.
  Status finalize();
  // Ends the communicator with `why` and tells the other ranks.
  void fail(const Status& why);
  // On return no buffer is touched any more.
  void abort(const char* why);
  // Returns Ok, or the cause that ended the communicator.
  Status failure() const;
  // The JSON text of r2cclCommReport.
  std::string report();
  std::vector<PathInfo> paths();
  std::vector<VerdictInfo> verdicts();
  // Tells `tell` of each verdict from now on, in a thread of its own; an empty one ends that. On
  // return no call of an earlier `tell` is under way. Not from inside `tell`.
  Status set_verdict_listener(VerdictTeller::Tell tell);

 private:
  Communicator(std::shared_ptr<ProcessDriver> driver, const CommunicatorOptions& options);
  ProgressThread& thread() { return *driver_->thread(); }
  // Returns when `work` has run in the driving thread. An exception of it fails this rank only.
  void call(const std::function<void()>& work);
  // The same for work that changes nothing: what it throws is thrown here, and the rank goes on.
  void ask(const std::function<void()>& work);
  Status connect(Transport& meeting);
  Status join(const std::shared_ptr<Job>& job, ContextId context, std::vector<Rank> peers);
  Result<bool> join_common(const MetJob& met);
  Status start_links(MetJob met, TimeNs deadline);
  Status open(RankInfo& info);
  Status wait_for_links(TimeNs deadline);
  Status measure_costs(TimeNs deadline);
  Status leave();
  // Waits until the others know of the failure, or for `bound`.
  void wait_for_news(TimeNs bound);

  // In the driving thread only.
  // RankObserver
  void on_pass() override;
  void on_pass_end() override;
  void on_failure(const Status& why) override;
  void on_verdict(size_t place) override;

  const CommunicatorOptions options_;
  const std::shared_ptr<ProcessDriver> driver_;
  const std::shared_ptr<AwaitedRequests> awaited_;
  uint64_t awaited_seen_ = 0;  // its change counter
  bool finalizes_ = false;     // in the driving thread
  std::mutex shrink_mutex_;    // held by a call of agree_without() until it has its outcome

  mutable std::mutex failure_mutex_;  // guards failure_
  Status failure_;                    // the runtime's, for all threads

  std::unique_ptr<VerdictTeller> teller_;  // the driving thread's; null while nobody listens
  std::unique_ptr<RankRuntime> runtime_;   // the driving thread's
  OfferedJobs offered_;                    // the driving thread's, while this one is made
  std::optional<ChildNumbers> children_;   // there once runtime_ has been started
  bool started_ = false;                   // runtime_ has been started
};

}  // namespace r2ccl
