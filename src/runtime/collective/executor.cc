#include "runtime/collective/executor.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutant.h"
#include "plan/holdings.h"
#include "runtime/reduction/reduce.h"

namespace r2ccl {

Executor::Executor(Rank self, ChannelId channel, std::vector<MessagePort*> ports,
                   size_t staging_slots)
    : self_(self),
      channel_(channel),
      ports_(std::move(ports)),
      plans_(limits::kPlansCachedMax, limits::kPlanStepsCachedMax),
      staging_(kPlanLimits.segment_bytes_max, staging_slots) {
  R2CCL_CHECK(staging_slots > 0);
  for (size_t rank = 0; rank < ports_.size(); ++rank) {
    R2CCL_CHECK((ports_[rank] == nullptr) == (rank == static_cast<size_t>(self.value())));
    if (ports_[rank] == nullptr) continue;
    ports_[rank]->open_channel(channel_, *this, Rank(static_cast<int32_t>(rank)));
  }
}

Executor::~Executor() {
  cancel(Status::in_any_case(Code::aborted, "the communicator was destroyed"));
}

namespace {

// Returns whether the two buffers of the call are the same memory.
bool is_in_place(const Operation& call, Rank self) {
  if (call.input == nullptr || call.output == nullptr) return false;
  const Overlay overlay = overlay_of(call.key, self);
  const size_t size = size_of(call.key.type);
  return reinterpret_cast<uintptr_t>(call.input) - overlay.input_at * size ==
         reinterpret_cast<uintptr_t>(call.output) - overlay.output_at * size;
}

// Returns whether the output takes the place of the input, when this rank's elements have been
// multiplied. It has the room in an AllReduce only.
bool multiplies_into_output(const PlanKey& key) {
  return key.op == ReduceOp::premulsum && key.collective == Collective::all_reduce;
}

}  // namespace

void Executor::start(Operation&& call) {
  R2CCL_CHECK(call.key.rank_count == static_cast<int32_t>(ports_.size()));
  if (!failure_.ok()) {
    call.done(failure_);
    return;
  }
  const bool multiplies = call.key.op == ReduceOp::premulsum;
  call.key.in_place = multiplies ? multiplies_into_output(call.key) : is_in_place(call, self_);
  if (running_ || in_run_queue_ || !queue_.empty() || !may_begin()) {
    queue_.push_back(std::move(call));
  } else {
    in_run_queue_ = true;
    begin(std::move(call));
    settle();
    in_run_queue_ = false;
  }
  run_queue();
}

void Executor::cancel(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  for (MessagePort* port : ports_) {
    if (port != nullptr) port->cancel_channel(channel_);
  }
  abandon(why);
}

// One after the other: each call is either still there or has ended.
void Executor::abandon(const Status& why) noexcept {
  if (failure_.ok()) failure_ = why;
  while (!idle()) {
    if (running_) {
      end_running()(failure_);
      continue;
    }
    const auto done = std::move(queue_.front().done);
    queue_.pop_front();
    done(failure_);
  }
}

// A collective may be complete as soon as it has begun, and its `done` may start another. The loop
// avoids the nesting.
void Executor::run_queue() {
  if (in_run_queue_) return;
  in_run_queue_ = true;
  while (!running_ && !queue_.empty() && may_begin()) {
    Operation call = std::move(queue_.front());
    queue_.pop_front();
    begin(std::move(call));
    settle();
  }
  in_run_queue_ = false;
}

void Executor::begin(Operation&& call) {
  Running& run = run_;
  run.plan = nullptr;
  // Before any allocation: if that fails, cancel() must find the call.
  run.call = std::move(call);
  running_ = true;
  if (views_ != nullptr) {
    run.call.key.view = views_->view_of(next_to_begin());
    views_->on_bound(next_to_begin());
  }
  if (run.call.key.op == ReduceOp::premulsum) multiply_input();
  PlanCache::Entry& entry = plans_.get(run.call.key, self_);
  const CompiledPlan& plan = entry.plan;
  if (!std::exchange(entry.used, true)) prepare_for(plan);
  // The hash of all calls so far: calls of no elements send nothing, so a difference between them
  // would stay hidden.
  run.context = calls_.begin(run.call.key, entry.hash, run.call.name).chain;
  reserve_scratch(plan.scratch() * size_of(run.call.key.type));
  reserve_wide(plan.wide() * sizeof(float));
  run.pending = plan.waits();
  run.message_done.assign(plan.steps().size(), 0);
  run.step_queues.assign(plan.step_queues().size(), {});
  run.staging.assign(plan.staged().size(), nullptr);
  run.staged_next = 0;
  run.steps_left = static_cast<uint32_t>(plan.steps().size());
  run.sends_posted = 0;
  run.buffers_released = false;
  run.plan = &plan;
  post_first();
}

// Steps with some peers come late in a plan. Their connections open at its beginning.
void Executor::prepare_for(const CompiledPlan& plan) {
  if (!plan.staged().empty()) staging_.reserve();
  for (const StepQueue& queue : plan.step_queues()) {
    ports_[static_cast<size_t>(queue.peer.value())]->expect_messages();
  }
}

// Posts the steps that wait for nothing.
void Executor::post_first() {
  const CompiledPlan& plan = *run_.plan;
  // Receives first, because early credit saves a round trip.
  for (const StepQueueKind kind : {StepQueueKind::receive, StepQueueKind::send}) {
    for (uint32_t step_queue = 0; step_queue < plan.step_queues().size(); ++step_queue) {
      if (plan.step_queues()[step_queue].kind == kind) advance_step_queue(step_queue);
    }
    advance_staged();
  }
  for (uint32_t step = 0; step < plan.steps().size(); ++step) {
    if (!has_peer(plan.steps()[step].kind) && run_.pending[step] == 0) becomes_ready(step);
  }
}

// Returns the completion to call. A client that it calls may start the next collective.
std::function<void(const Status&)> Executor::end_running() noexcept {
  running_ = false;
  run_.products.reset();
  return std::move(run_.call.done);
}

// From here on a pre-multiplied sum is a sum of the products.
void Executor::multiply_input() {
  Operation& call = run_.call;
  const uint64_t count = extents_of(call.key, self_).input_count;
  std::byte* products = call.output;
  if (!multiplies_into_output(call.key)) {
    run_.products = std::make_unique_for_overwrite<std::byte[]>(count * size_of(call.key.type));
    products = run_.products.get();
  }
  scale(call.key.type, products, call.input, count, call.scalar);
  call.input = products;
}

void Executor::on_sent(Rank peer, ChannelId, MessageNo number) {
  message_complete(StepQueueKind::send, peer, number);
}

void Executor::on_received(Rank peer, ChannelId, MessageNo number, uint64_t) {
  message_complete(StepQueueKind::receive, peer, number);
}

void Executor::on_mismatch(Rank peer, ChannelId, const Status& why) {
  if (on_mismatch_) return on_mismatch_(peer, why);
  cancel(why.with_context("collective with rank " + std::to_string(peer.value())));
}

void Executor::message_complete(StepQueueKind kind, Rank peer, MessageNo number) {
  if (!failure_.ok()) return;
  R2CCL_CHECK(running_);
  Running& run = run_;
  const uint32_t step_queue = run.plan->find_step_queue(kind, peer);
  R2CCL_CHECK(step_queue != kNone);
  StepQueueState& state = run.step_queues[step_queue];
  const std::vector<uint32_t>& steps = run.plan->step_queues()[step_queue].steps;
  const uint64_t index = number.value() - state.first.value();
  R2CCL_CHECK(index < state.posted);
  const uint32_t step = steps[index];
  R2CCL_CHECK(run.message_done[step] == 0);
  run.message_done[step] = 1;
  if (kind == StepQueueKind::send) --run.sends_posted;
  while (state.low < state.posted && run.message_done[steps[state.low]] != 0) ++state.low;

  if (run.plan->steps()[step].kind != StepKind::receive_reduce) {
    finished_.push_back(step);
  } else if (--run.pending[step] == 0) {
    becomes_ready(step);
  }
  advance_step_queue(step_queue);
  settle();
  run_queue();
}

// Notifies the dependents of all finished steps, until no further step finishes.
void Executor::settle() {
  Running& run = run_;
  while (!finished_.empty()) {
    const uint32_t step = finished_.back();
    finished_.pop_back();
    --run.steps_left;
    for (const uint32_t dependent : run.plan->dependents(step)) {
      if (--run.pending[dependent] == 0) becomes_ready(dependent);
    }
  }
  advance_staged();
  if (run.steps_left == 0) return finish();
  if (run.steps_left == run.sends_posted && !run.buffers_released) release_send_buffers();
}

// This rank has its result. It only waits for the acknowledgements of the other ranks.
void Executor::release_send_buffers() {
  Running& run = run_;
  run.buffers_released = true;
  for (size_t i = 0; i < run.step_queues.size(); ++i) {
    const StepQueue& step_queue = run.plan->step_queues()[i];
    if (step_queue.kind != StepQueueKind::send ||
        run.step_queues[i].low == run.step_queues[i].posted)
      continue;
    ports_[static_cast<size_t>(step_queue.peer.value())]->release_send_buffers(channel_);
  }
}

void Executor::becomes_ready(uint32_t step) {
  const Step& what = run_.plan->steps()[step];
  switch (what.kind) {
    case StepKind::send:
    case StepKind::receive:
      return advance_step_queue(run_.plan->step_queue_of(step));
    case StepKind::receive_reduce:
      reduce_received(step);
      break;
    case StepKind::copy:
      copy(what);
      break;
    case StepKind::reduce:
      reduce_own(what);
      break;
  }
  finished_.push_back(step);
}

void Executor::advance_step_queue(uint32_t step_queue) {
  StepQueueState& state = run_.step_queues[step_queue];
  const std::vector<uint32_t>& steps = run_.plan->step_queues()[step_queue].steps;
  while (state.posted < steps.size() && state.posted - state.low < limits::kMessagesPostedMax &&
         may_post(steps[state.posted])) {
    post(step_queue, steps[state.posted]);
  }
}

// Gives staging slots strictly in plan order. Otherwise receives that come late in the plan could
// hold every slot, while the receive that they depend on, through other ranks, waits for a slot.
// The checker proves plans with a single slot under this rule.
void Executor::advance_staged() {
  const Running& run = run_;
  const std::vector<uint32_t>& staged = run.plan->staged();
  while (run.staged_next < staged.size() && !staging_.empty()) {
    const uint32_t before = run.staged_next;
    advance_step_queue(run.plan->step_queue_of(staged[before]));
    if (run.staged_next == before) return;
  }
}

bool Executor::may_post(uint32_t step) const {
  const Running& run = run_;
  const uint32_t staged = run.plan->staged_index(step);
  if (staged == kNone) return run.pending[step] == 0;
  return staged == run.staged_next && !staging_.empty();
}

void Executor::post(uint32_t step_queue, uint32_t step) {
  Running& run = run_;
  StepQueueState& state = run.step_queues[step_queue];
  const Step& what = run.plan->steps()[step];
  MessagePort& port = *ports_[static_cast<size_t>(what.peer.value())];
  const uint64_t context = context_of(what);
  MessageNo number;
  if (what.kind == StepKind::send) {
    number = port.post_send(channel_, {source_of(what.source), bytes_of(what.source)}, context);
    ++run.sends_posted;
  } else {
    std::byte* target = target_of(what.target);
    const size_t bytes = bytes_of(what.target);
    if (what.kind == StepKind::receive_reduce) {
      R2CCL_CHECK(bytes <= staging_.slot_bytes());
      target = staging_.take();
      run.staging[run.staged_next++] = target;
      if (mutated(Mutant::staging_early)) staging_.give_back(target);
    }
    number = port.post_receive(channel_, {target, bytes}, context);
  }
  if (state.posted == 0) state.first = number;
  R2CCL_CHECK(number.value() == state.first.value() + state.posted);
  ++state.posted;
}

void Executor::reduce_received(uint32_t step) {
  Running& run = run_;
  std::byte* slot = run.staging[run.plan->staged_index(step)];
  reduce_segment(run.plan->steps()[step], slot);
  if (!mutated(Mutant::staging_early)) staging_.give_back(slot);
}

namespace {

Form form_in(Buffer buffer) {
  return buffer == Buffer::wide ? Form::wide : Form::half;
}

}  // namespace

void Executor::reduce_own(const Step& step) const {
  reduce_segment(step, source_of(step.addend));
}

// `other`: the received elements or the addend.
void Executor::reduce_segment(const Step& step, const std::byte* other) const {
  const PlanKey& key = run_.call.key;
  const std::byte* source = source_of(step.source);
  std::byte* target = target_of(step.target);
  const uint64_t count = step.target.count;
  const bool divides = step.last_reduction && key.op == ReduceOp::avg;
  const bool is_wide = step.source.buffer == Buffer::wide || step.target.buffer == Buffer::wide;
  if (is_wide || (divides && is_half(key.type))) {
    // These do not depend on the order of the operands, not even where the result is no number.
    return accumulate({key.type, key.op, form_in(step.source.buffer), form_in(step.target.buffer),
                       divides ? key.rank_count : 1},
                      target, source, other, count);
  }
  if (step.operands == Operands::own_first) {
    reduce(key.type, key.op, target, source, other, count);
  } else {
    reduce(key.type, key.op, target, other, source, count);
  }
  if (divides) divide(key.type, target, count, key.rank_count);
}

void Executor::copy(const Step& step) const {
  const DataType type = run_.call.key.type;
  const std::byte* source = source_of(step.source);
  std::byte* target = target_of(step.target);
  if (step.source.buffer == Buffer::wide) return narrow(type, target, source, step.target.count);
  if (step.target.buffer == Buffer::wide) return widen(type, target, source, step.target.count);
  if (source != target) std::memcpy(target, source, bytes_of(step.target));
}

void Executor::finish() {
  ++completed_;
  end_running()(Status::ok_status());
}

void Executor::reserve_scratch(size_t bytes) {
  R2CCL_CHECK(bytes <= limits::kScratchBytes);
  if (bytes == 0 || scratch_ != nullptr) return;
  scratch_ = std::make_unique_for_overwrite<std::byte[]>(limits::kScratchBytes);
}

void Executor::reserve_wide(size_t bytes) {
  R2CCL_CHECK(bytes <= limits::kWideBytes);
  if (bytes == 0 || wide_ != nullptr) return;
  wide_ = std::make_unique_for_overwrite<std::byte[]>(limits::kWideBytes);
}

// Ranks agree on the chain of calls, and where each pair has counts of its own, on these too.
uint64_t Executor::context_of(const Step& step) const {
  const PlanKey& key = run_.call.key;
  if (!has_own_counts(key)) return run_.context;
  return hash_of({run_.context, count_with(key, self_, step.peer, step.kind == StepKind::send)});
}

const std::byte* Executor::source_of(const Region& region) const {
  if (region.buffer != Buffer::input) return target_of(region);
  // Messages without bytes may have null buffers.
  const Operation& call = run_.call;
  return region.count == 0 ? call.input : call.input + region.offset * size_of(call.key.type);
}

std::byte* Executor::target_of(const Region& region) const {
  R2CCL_CHECK(region.buffer != Buffer::input);
  if (region.buffer == Buffer::wide) return wide_.get() + region.offset * sizeof(float);
  std::byte* base = region.buffer == Buffer::output ? run_.call.output : scratch_.get();
  return region.count == 0 ? base : base + region.offset * size_of(run_.call.key.type);
}

size_t Executor::bytes_of(const Region& region) const {
  return region.count * size_of(run_.call.key.type);
}

std::optional<BufferUse> Executor::find_buffer(const BadMemory& bad) const {
  if (!running_) return std::nullopt;
  const Operation& call = run_.call;
  const Extents extents = extents_of(call.key, self_);
  const size_t size = size_of(call.key.type);
  const bool known = offset_in(call.input, extents.input_count * size, bad.at).has_value() ||
                     offset_in(call.output, extents.output_count * size, bad.at).has_value();
  if (!known) return std::nullopt;
  return use_of(call, calls_.latest().number, bad);
}

BufferUse Executor::use_of(const Operation& call, uint64_t number, const BadMemory& bad) const {
  const Extents extents = extents_of(call.key, self_);
  const size_t size = size_of(call.key.type);
  BufferUse use;
  use.call = describe(CallRecord{number, 0, call.key, call.name});
  const auto in_output = offset_in(call.output, extents.output_count * size, bad.at);
  const auto in_input = offset_in(call.input, extents.input_count * size, bad.at);
  // An in-place call has one memory for both.
  const bool is_source = in_input && (bad.access == Access::read || !in_output);
  use.bytes = (is_source ? extents.input_count : extents.output_count) * size;
  use.buffer = is_source ? "sendbuff" : "recvbuff";
  use.offset = is_source ? *in_input : in_output.value_or(0);
  return use;
}

std::vector<Rank> Executor::waits_on() const {
  std::vector<Rank> peers;
  // The next collective waits for the decision on its view.
  if (!running_ && !queue_.empty() && !may_begin()) return views_->waits_on();
  if (!running_ || run_.plan == nullptr) return peers;
  const std::vector<StepQueue>& step_queues = run_.plan->step_queues();
  for (size_t i = 0; i < step_queues.size(); ++i) {
    if (run_.step_queues[i].low < run_.step_queues[i].posted) peers.push_back(step_queues[i].peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace r2ccl
