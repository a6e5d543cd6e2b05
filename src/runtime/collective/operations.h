// All operations of one rank in one communicator: an executor, the Sends and Recvs, and the tagged
// ones, each on its channels of the context.
//
// One thread. `done` is called as Executor, PointToPoint and TaggedMessages say.
#pragma once

#include <cstdint>
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
  Operations(Rank self, const std::vector<MessagePort*>& ports, ContextId context, HostGroups hosts,
             const PlanCosts& costs);
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // The costs of later collectives. The ranks change them between the same two calls.
  void set_costs(const PlanCosts& costs) { costs_ = costs; }
  const PlanCosts& costs() const { return costs_; }

  // Returns the number of the call: among the collectives, or among its own kind to or from the
  // peer.
  uint64_t start(Operation&& operation);
  // Returns the number of the next such call.
  uint64_t next_number(const Operation& operation) const;
  // Returns the use of the memory by the next such call.
  BufferUse use_by_next(const Operation& operation, const BadMemory& bad) const;

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  PointToPoint& point_to_point() { return point_to_point_; }
  const PointToPoint& point_to_point() const { return point_to_point_; }
  TaggedMessages& tagged_messages() { return tagged_messages_; }
  const TaggedMessages& tagged_messages() const { return tagged_messages_; }

  // As of TaggedMessages.
  Status end();
  // As of all three.
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
  void start_transfer(Operation&& operation);
  void receive_tagged(Operation&& operation);
  Operation::Done counted(Operation::Done&& done);

  const HostGroups hosts_;
  PlanCosts costs_;
  uint64_t transfers_ = 0;  // that ended well; declared before the parts, whose end still counts
  Executor executor_;
  PointToPoint point_to_point_;
  TaggedMessages tagged_messages_;
};

}  // namespace r2ccl
