// One rank that plays its part of a plan, by the rules of src/plan/plan.h and in the order of
// runtime/collective/executor: posts a message when its step may start, and finishes steps when
// messages end. It knows neither time nor bandwidth.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fluid/compact_plan.h"

namespace r2ccl::sim {

class PlanPlayer {
 public:
  struct Bounds {
    uint32_t window = 0;          // messages that a step queue may have posted and not finished
    uint32_t staging = 0;         // slots of the rank
    uint64_t buffered_count = 0;  // sends of at most so many elements are copied
  };
  // The plan must outlive the player.
  PlanPlayer(const CompactPlan& plan, const Bounds& bounds);

  // Posts the steps that wait for nothing. Requires that it is the first call. This and the next
  // two append the queues in which messages were posted to `posted`.
  void start(std::vector<uint32_t>& posted);
  // The oldest posted message of the queue has arrived.
  void arrive(uint32_t queue, std::vector<uint32_t>& posted);
  // The oldest posted message of the queue is acknowledged.
  void acknowledge(uint32_t queue, std::vector<uint32_t>& posted);

  // Returns the messages of the queue that were posted, counted from the beginning.
  uint32_t posted(uint32_t queue) const { return queues_[queue].posted; }
  // Begins the next posted message of the queue, and returns its elements.
  uint64_t begin(uint32_t queue) { return next_step(queues_[queue].begun).count; }

  // Returns the steps that are left, without the sends: with none left, the rank has its result.
  uint32_t work_left() const { return steps_left_ - sends_left_; }
  // Returns the first step that is not complete. Requires that there is one.
  uint32_t first_left() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A place in the steps of a queue. Steps are read anew at each of its places: they take less
  // memory in the code than anywhere else, and the processor's caches hold them.
  struct Cursor {
    CompactStep step;   // the last one that was read
    uint32_t next = 0;  // where the one after it begins in the code
  };
  struct QueueState {
    Cursor head;          // at the next step to post
    Cursor begun;         // at the last one whose message has begun
    Cursor gone;          // at the last one whose message has arrived or was acknowledged
    uint32_t read = 0;    // steps up to the head
    uint32_t posted = 0;  // steps posted
    uint32_t ended = 0;   // of these, the ones up to `gone`
    bool ready = false;   // the head waits for no step
  };
  // A step that waits for others, one after the other. The heads of the queues come first, and the
  // copies follow.
  struct Waiter {
    uint32_t step = kNone;
    uint32_t next_after = 0;  // where the next number of an earlier step lies in the code
    uint32_t after_left = 0;
    uint32_t awaited = kNone;
    uint32_t chained = kNone;  // the next waiter of the same bucket
  };

  bool is_done(uint32_t step) const { return (done_[step / 64] >> (step % 64) & 1) != 0; }
  bool may_go(uint32_t waiter);
  void wait_for(uint32_t waiter, const CompactStep& step);
  void go_on(uint32_t waiter);
  void read_head(uint32_t queue);
  const CompactStep& next_step(Cursor& cursor) {
    plan_->read_step(cursor.next, cursor.step);
    return cursor.step;
  }
  bool may_post(uint32_t queue) const;
  void advance(uint32_t queue);
  void advance_staged();
  void take_slot();
  void hold_copy(const CompactStep& step);
  uint32_t new_waiter();
  void finish_send(const CompactStep& step);
  void finish(uint32_t step);
  void settle();
  void wake(uint32_t step);

  const CompactPlan* plan_;
  uint32_t window_;
  uint32_t slots_;
  uint64_t buffered_count_;
  uint32_t staged_at_;  // where the queue after the next staged one lies in the code
  uint32_t staged_left_;
  uint32_t staged_queue_ = kNone;  // has the next step that gets a slot
  uint32_t steps_left_;
  uint32_t sends_left_ = 0;
  std::vector<QueueState> queues_;
  std::vector<uint64_t> done_;  // a bit for each step
  std::vector<Waiter> waiters_;
  std::vector<uint32_t> free_waiters_;
  std::vector<uint32_t> buckets_;  // the first waiter for the steps of each bucket
  std::vector<uint32_t> finished_;
  std::vector<uint32_t> woken_;
  std::vector<uint32_t>* posted_ = nullptr;  // valid during a call
};

}  // namespace r2ccl::sim
