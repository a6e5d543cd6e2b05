// All operations of one rank: for each context an executor, the Sends and Recvs, and the tagged
// ones. A context is a communicator's four channels on the links. A process has one context; the
// simulator runs several over the same links.
//
// One thread. `done` is called as Executor, PointToPoint and TaggedMessages say.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/collective/executor.h"
#include "runtime/collective/operation.h"
#include "runtime/point_to_point/point_to_point.h"
#include "runtime/point_to_point/tagged_messages.h"

namespace r2ccl {

class Operations {
 public:
  // As for Executor: one port per rank, null for `self`; they must outlive this. The plans of all
  // collectives are for these host groups, and by these costs.
  Operations(Rank self, const std::vector<MessagePort*>& ports, int contexts, HostGroups hosts,
             const PlanCosts& costs);
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Returns the first channel that so many contexts do not use.
  static ChannelId first_free_channel(int contexts);

  // The costs of later collectives. The ranks change them between the same two calls.
  void set_costs(const PlanCosts& costs) { costs_ = costs; }
  const PlanCosts& costs() const { return costs_; }

  // Returns the number of the call: among the context's collectives, or among its own kind to or
  // from the peer.
  uint64_t start(Operation&& operation, int context = 0);
  // Returns the number of the next such call.
  uint64_t next_number(const Operation& operation, int context = 0) const;
  // Returns the use of the memory by the next such call.
  BufferUse use_by_next(const Operation& operation, const BadMemory& bad, int context = 0) const;

  Executor& executor(int context = 0) { return contexts_[static_cast<size_t>(context)]->executor; }
  const Executor& executor(int context = 0) const {
    return contexts_[static_cast<size_t>(context)]->executor;
  }
  PointToPoint& point_to_point(int context = 0) {
    return contexts_[static_cast<size_t>(context)]->point_to_point;
  }
  const PointToPoint& point_to_point(int context = 0) const {
    return contexts_[static_cast<size_t>(context)]->point_to_point;
  }
  TaggedMessages& tagged_messages(int context = 0) {
    return contexts_[static_cast<size_t>(context)]->tagged_messages;
  }
  const TaggedMessages& tagged_messages(int context = 0) const {
    return contexts_[static_cast<size_t>(context)]->tagged_messages;
  }
  int contexts() const { return static_cast<int>(contexts_.size()); }

  // As of TaggedMessages, for all contexts.
  Status end();
  // As of all three, for all contexts.
  void cancel(const Status& why);
  void abandon(const Status& why) noexcept;
  bool idle() const;
  bool idle_but_local() const;
  size_t unmatched_local() const;
  std::vector<Rank> waits_on() const;
  std::optional<BufferUse> find_buffer(const BadMemory& bad) const;
  void check_invariants() const;

  // Operations that ended well.
  uint64_t completed() const;

 private:
  struct Context {
    Executor executor;
    PointToPoint point_to_point;
    TaggedMessages tagged_messages;
  };
  void start_transfer(Operation&& operation, int context);
  void receive_tagged(Operation&& operation, int context);
  Operation::Done counted(Operation::Done&& done);

  const HostGroups hosts_;
  PlanCosts costs_;
  uint64_t transfers_ = 0;  // that ended well; declared before contexts_, whose end still counts
  std::vector<std::unique_ptr<Context>> contexts_;
};

}  // namespace r2ccl
