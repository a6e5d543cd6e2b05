#include "sim/fluid/plan_player.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr size_t kBucketsMax = 4096;

}  // namespace

PlanPlayer::PlanPlayer(const CompactPlan& plan, const Bounds& bounds)
    : plan_(&plan),
      window_(bounds.window),
      slots_(bounds.staging),
      staged_at_(plan.staged_begin()),
      staged_left_(plan.staged_count()),
      steps_left_(plan.steps()),
      queues_(plan.queues().size()),
      done_((plan.steps() + 63) / 64),
      waiters_(plan.queues().size()),
      buckets_(std::bit_ceil(std::min(plan.queues().size() + 8, kBucketsMax)), kNone) {
  R2CCL_CHECK(window_ > 0 && slots_ > 0);
  for (uint32_t i = 0; i < queues_.size(); ++i) {
    queues_[i].next = plan.queues()[i].begin;
    if (plan.queues()[i].sends) sends_left_ += plan.queues()[i].length;
  }
}

void PlanPlayer::start(std::vector<uint32_t>& posted) {
  posted_ = &posted;
  take_slot();
  for (uint32_t queue = 0; queue < queues_.size(); ++queue) read_head(queue);
  for (uint32_t queue = 0; queue < queues_.size(); ++queue) advance(queue);
  for (const CompactStep& copy : plan_->copies()) hold_copy(copy);
  settle();
}

void PlanPlayer::hold_copy(const CompactStep& step) {
  const auto waiter = static_cast<uint32_t>(waiters_.size());
  waiters_.emplace_back();
  wait_for(waiter, step);
  if (may_go(waiter)) finish(step.number);
}

void PlanPlayer::arrive(uint32_t queue, std::vector<uint32_t>& posted) {
  posted_ = &posted;
  QueueState& state = queues_[queue];
  R2CCL_CHECK(state.ended < state.posted);
  const CompactStep step = state.open[state.ended & (state.open.size() - 1)];
  ++state.ended;
  if (step.reduces) {
    const uint32_t waiter = new_waiter();
    wait_for(waiter, step);
    if (may_go(waiter)) go_on(waiter);
  } else {
    finish(step.number);
  }
  advance(queue);
  settle();
}

void PlanPlayer::acknowledge(uint32_t queue, std::vector<uint32_t>& posted) {
  posted_ = &posted;
  QueueState& state = queues_[queue];
  R2CCL_CHECK(state.ended < state.posted && sends_left_ > 0);
  const uint32_t step = state.open[state.ended & (state.open.size() - 1)].number;
  ++state.ended;
  --sends_left_;
  finish(step);
  advance(queue);
  settle();
}

uint32_t PlanPlayer::first_left() const {
  for (uint32_t step = 0; step < plan_->steps(); ++step) {
    if (!is_done(step)) return step;
  }
  R2CCL_CHECK(false);
  return kNone;
}

uint32_t PlanPlayer::new_waiter() {
  if (free_waiters_.empty()) {
    waiters_.emplace_back();
    return static_cast<uint32_t>(waiters_.size() - 1);
  }
  const uint32_t waiter = free_waiters_.back();
  free_waiters_.pop_back();
  return waiter;
}

void PlanPlayer::wait_for(uint32_t waiter, const CompactStep& step) {
  waiters_[waiter] = {
      .step = step.number, .next_after = step.after, .after_left = step.after_count};
}

// Returns whether all steps that the waiter waits for are complete; else it waits for the first
// that is not.
bool PlanPlayer::may_go(uint32_t waiter) {
  Waiter& state = waiters_[waiter];
  while (state.after_left > 0) {
    const uint32_t awaited = state.step - plan_->read(state.next_after);
    --state.after_left;
    if (is_done(awaited)) continue;
    state.awaited = awaited;
    uint32_t& bucket = buckets_[awaited & (buckets_.size() - 1)];
    state.chained = bucket;
    bucket = waiter;
    return false;
  }
  return true;
}

void PlanPlayer::go_on(uint32_t waiter) {
  if (waiter < queues_.size()) {
    queues_[waiter].ready = true;
    advance(waiter);
    return;
  }
  finish(waiters_[waiter].step);
  if (waiter < queues_.size() + plan_->copies().size()) return;
  ++slots_;
  free_waiters_.push_back(waiter);
}

void PlanPlayer::read_head(uint32_t queue) {
  QueueState& state = queues_[queue];
  state.ready = false;
  if (state.read == plan_->queues()[queue].length) return;
  ++state.read;
  plan_->read_step(state.next, state.head);
  if (state.head.reduces) return;  // only its reduction waits
  wait_for(queue, state.head);
  state.ready = may_go(queue);
}

bool PlanPlayer::may_post(uint32_t queue) const {
  const QueueState& state = queues_[queue];
  if (state.posted == state.read || state.posted - state.ended >= window_) return false;
  return state.head.reduces ? queue == staged_queue_ && slots_ > 0 : state.ready;
}

void PlanPlayer::advance(uint32_t queue) {
  if (!may_post(queue)) return;
  posted_->push_back(queue);
  QueueState& state = queues_[queue];
  while (may_post(queue)) {
    if (state.posted - state.ended == state.open.size()) grow(state);
    state.open[state.posted & (state.open.size() - 1)] = state.head;
    ++state.posted;
    if (state.head.reduces) {
      --slots_;
      take_slot();
    }
    read_head(queue);
  }
}

void PlanPlayer::grow(QueueState& state) {
  std::vector<CompactStep> larger(state.open.size() * 2);
  for (uint32_t i = state.ended; i != state.posted; ++i) {
    larger[i & (larger.size() - 1)] = state.open[i & (state.open.size() - 1)];
  }
  state.open = std::move(larger);
}

// Finds the queue whose step gets the next staging slot: they go out strictly in the order of the
// plan.
void PlanPlayer::take_slot() {
  staged_queue_ = kNone;
  if (staged_left_ == 0) return;
  --staged_left_;
  staged_queue_ = plan_->read(staged_at_);
}

void PlanPlayer::advance_staged() {
  while (staged_queue_ != kNone) {
    const uint32_t before = staged_left_;
    advance(staged_queue_);
    if (staged_left_ == before) return;
  }
}

void PlanPlayer::finish(uint32_t step) {
  R2CCL_CHECK(!is_done(step));
  done_[step / 64] |= uint64_t{1} << (step % 64);
  --steps_left_;
  finished_.push_back(step);
}

// Lets the steps go on that wait for finished ones, until no further step finishes.
void PlanPlayer::settle() {
  while (!finished_.empty()) {
    const uint32_t step = finished_.back();
    finished_.pop_back();
    wake(step);
  }
  advance_staged();
}

void PlanPlayer::wake(uint32_t step) {
  woken_.clear();
  uint32_t* link = &buckets_[step & (buckets_.size() - 1)];
  while (*link != kNone) {
    const uint32_t waiter = *link;
    if (waiters_[waiter].awaited != step) {
      link = &waiters_[waiter].chained;
      continue;
    }
    *link = waiters_[waiter].chained;
    woken_.push_back(waiter);
  }
  for (size_t i = 0; i < woken_.size(); ++i) {
    if (may_go(woken_[i])) go_on(woken_[i]);
  }
}

}  // namespace r2ccl::sim
