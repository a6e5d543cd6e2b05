// Runs this rank's part of collectives over message ports.
//
// One executor belongs to one communicator. It runs its collectives one after the other, in the
// order of start(): the next begins when the previous one is complete on this rank. Completions
// drive each collective: a finished step counts down the steps that wait for it, so the cost is
// O(1) amortised per step event and the executor never polls.
//
// Driving thread only. `done` is called exactly once per started collective, from inside on_sent,
// on_received, on_mismatch, cancel (so also from the destructor), abandon or start itself (a plan
// may have nothing to wait for). It may call start() and cancel(); it must not destroy the
// executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fifo.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "protocol/view/view_agreement.h"
#include "runtime/collective/call_history.h"
#include "runtime/collective/compiled_plan.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/plan_cache.h"
#include "runtime/collective/staging_pool.h"
#include "runtime/link/message_port.h"
#include "runtime/link/user_memory.h"

namespace r2ccl {

class Executor final : public MessageClient {
 public:
  // `ports[r]` reaches rank r; the entry of `self` is null. Opens `channel` on each port. The ports
  // must outlive the executor, and its destructor cancels the channel. One staging slot is enough
  // for any plan; more slots let more segments travel at a time.
  Executor(Rank self, ChannelId channel, std::vector<MessagePort*> ports,
           size_t staging_slots = limits::kStagingBytes / kPlanLimits.segment_bytes_max);
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Requires that key.rank_count is the number of ports. Once failed or cancelled, every call ends
  // at once with that status.
  void start(Operation&& call);

  // Collectives from now on take their views from here, and begin only when it permits. It must
  // outlive the executor. Without it, all NICs of all hosts are whole.
  void set_views(ViewAgreement* views) { views_ = views; }
  // Begins the collectives that waited for the decision on a view, if it is there.
  void resume() {
    if (!queue_.empty()) run_queue();
  }

  // Ends all started collectives with `why`, for ever. After the return the executor touches no
  // buffer of any collective.
  void cancel(const Status& why);
  // Does the same without memory, and without a word to the ports, which must move no bytes any
  // more.
  void abandon(const Status& why) noexcept;

  bool idle() const { return !running_ && queue_.empty(); }
  // Returns the view of the collective that began last.
  const View& latest_view() const { return run_.call.key.view; }
  // Returns how many collectives have ended well.
  uint64_t completed() const { return completed_; }

  // Receives a mismatched call of a peer, and decides its effect on the communicator. Without a
  // handler the executor only ends its own collectives.
  using MismatchHandler = std::function<void(Rank peer, const Status& why)>;
  void set_mismatch_handler(MismatchHandler handler) { on_mismatch_ = std::move(handler); }

  // Returns the collectives begun, for comparison with another rank's.
  const CallHistory& calls() const { return calls_; }

  // Returns the number that the next call to start() will get, from 1.
  uint64_t next_number() const { return calls_.latest().number + queue_.size() + 1; }
  // Returns the unfinished call that the memory belongs to, or nothing.
  std::optional<BufferUse> find_buffer(const BadMemory& bad) const;
  // Returns the same for a call that is known to use the memory.
  BufferUse use_of(const Operation& call, uint64_t number, const BadMemory& bad) const;

  // Returns the peers whose bytes or acknowledgements the running collective waits for, in rank
  // order, for the chain of waits that names the root of a standstill.
  std::vector<Rank> waits_on() const;

  void on_sent(Rank peer, ChannelId channel, MessageNo number) override;
  void on_received(Rank peer, ChannelId channel, MessageNo number, uint64_t bytes) override;
  void on_mismatch(Rank peer, ChannelId channel, const Status& why) override;

 private:
  // The progress of a step queue. Queue i of the plan has entry i.
  struct StepQueueState {
    uint32_t posted = 0;
    uint32_t low = 0;  // all steps before this one are complete
    MessageNo first;   // this collective's first message on the queue; valid once posted > 0
  };

  // The collective in progress. Its vectors keep their memory for the next one.
  struct Running {
    Operation call;
    std::unique_ptr<std::byte[]> products;  // a pre-multiplied sum's input, unless in the output
    const CompiledPlan* plan = nullptr;     // null: not known yet; valid until the next one's
    uint64_t context = 0;
    std::vector<uint32_t> pending;      // per step: the events that it still waits for
    std::vector<uint8_t> message_done;  // per step: its message is complete
    std::vector<StepQueueState> step_queues;
    std::vector<std::byte*> staging;  // per staged step: its slot, while it has one
    uint32_t staged_next = 0;         // the next staged step to get a slot
    uint32_t steps_left = 0;
    uint32_t sends_posted = 0;  // posted sends that are not complete
    bool buffers_released = false;
  };

  bool may_begin() const { return views_ == nullptr || views_->may_bind(next_to_begin()); }
  uint64_t next_to_begin() const { return calls_.latest().number + 1; }
  void run_queue();
  void begin(Operation&& call);
  void prepare_for(const CompiledPlan& plan);
  void post_first();
  std::function<void(const Status&)> end_running() noexcept;
  void multiply_input();
  void message_complete(StepQueueKind kind, Rank peer, MessageNo number);
  void settle();
  void becomes_ready(uint32_t step);
  void advance_step_queue(uint32_t step_queue);
  void advance_staged();
  bool may_post(uint32_t step) const;
  void post(uint32_t step_queue, uint32_t step);
  void release_send_buffers();
  void reduce_received(uint32_t step);
  void reduce_own(const Step& step) const;
  void reduce_segment(const Step& step, const std::byte* other) const;
  void copy(const Step& step) const;
  void finish();

  const std::byte* source_of(const Region& region) const;
  std::byte* target_of(const Region& region) const;
  size_t bytes_of(const Region& region) const;
  uint64_t context_of(const Step& step) const;
  void reserve_scratch(size_t bytes);
  void reserve_wide(size_t bytes);

  const Rank self_;
  const ChannelId channel_;
  const std::vector<MessagePort*> ports_;
  PlanCache plans_;
  StagingPool staging_;
  // From the first collective on that needs them.
  std::unique_ptr<std::byte[]> scratch_;
  std::unique_ptr<std::byte[]> wide_;
  Fifo<Operation> queue_;
  bool running_ = false;
  Running run_;  // valid while running_
  uint64_t completed_ = 0;
  std::vector<uint32_t> finished_;  // complete steps whose dependents have not been notified
  bool in_run_queue_ = false;
  MismatchHandler on_mismatch_;
  CallHistory calls_;
  ViewAgreement* views_ = nullptr;
  Status failure_;  // not ok: cancelled
};

}  // namespace r2ccl
