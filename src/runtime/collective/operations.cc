#include "runtime/collective/operations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

// Context c has channel 4 c + 1 for its collectives, 4 c + 2 for Send and Recv, and 4 c + 3 and
// 4 c + 4 for the frames and the payloads of tagged messages.
constexpr uint32_t kChannelsEach = 4;

}  // namespace

Operations::Operations(Rank self, const std::vector<MessagePort*>& ports, int contexts,
                       HostGroups hosts, const PlanCosts& costs)
    : hosts_(std::move(hosts)), costs_(costs) {
  for (int c = 0; c < contexts; ++c) {
    const ChannelId first(kChannelsEach * static_cast<uint32_t>(c) + 1);
    const auto other = [first](uint32_t number) { return ChannelId(first.value() + number); };
    // No part can be moved, so aggregate initialisation builds all in place.
    contexts_.emplace_back(new Context{Executor(self, first, ports),
                                       PointToPoint(self, other(1), ports),
                                       TaggedMessages(self, other(2), other(3), ports)});
  }
}

ChannelId Operations::first_free_channel(int contexts) {
  return ChannelId(kChannelsEach * static_cast<uint32_t>(contexts) + 1);
}

Operation::Done Operations::counted(Operation::Done&& done) {
  return [this, done = std::move(done)](const Status& status) {
    if (status.ok()) ++transfers_;
    done(status);
  };
}

uint64_t Operations::next_number(const Operation& operation, int context) const {
  switch (operation.kind) {
    case PendingCall::Kind::collective:
      return executor(context).next_number();
    case PendingCall::Kind::send:
      return point_to_point(context).sends_to(operation.peer) + 1;
    case PendingCall::Kind::receive:
      return point_to_point(context).receives_from(operation.peer) + 1;
    case PendingCall::Kind::send_tagged:
      return tagged_messages(context).sends_to(operation.peer) + 1;
    case PendingCall::Kind::receive_tagged:
      return tagged_messages(context).receives_from(operation.peer) + 1;
  }
  return 0;
}

BufferUse Operations::use_by_next(const Operation& operation, const BadMemory& bad,
                                  int context) const {
  switch (operation.kind) {
    case PendingCall::Kind::collective:
      return executor(context).use_of(operation, next_number(operation, context), bad);
    case PendingCall::Kind::send:
      return point_to_point(context).use_by_next(operation.peer, operation.sent_bytes(), bad);
    case PendingCall::Kind::receive:
      return point_to_point(context).use_by_next(operation.peer, operation.received_bytes(), bad);
    case PendingCall::Kind::send_tagged:
      return tagged_messages(context).use_by_next(operation.peer, operation.tag,
                                                  operation.sent_bytes(), bad);
    case PendingCall::Kind::receive_tagged:
      return tagged_messages(context).use_by_next(operation.peer, operation.tag,
                                                  operation.received_bytes(), bad);
  }
  return {};
}

uint64_t Operations::start(Operation&& operation, int context) {
  if (operation.kind == PendingCall::Kind::collective) {
    Executor& all = executor(context);
    const uint64_t number = all.next_number();
    operation.key.hosts = hosts_;
    operation.key.costs = costs_;
    all.start(std::move(operation));
    return number;
  }
  const uint64_t number = next_number(operation, context);
  start_transfer(std::move(operation), context);
  return number;
}

void Operations::start_transfer(Operation&& operation, int context) {
  const Rank peer = operation.peer;
  const DataType type = operation.key.type;
  switch (operation.kind) {
    case PendingCall::Kind::collective:
      R2CCL_CHECK(false);
      return;
    case PendingCall::Kind::send:
      return point_to_point(context).send(peer, operation.sent_bytes(), type,
                                          counted(std::move(operation.done)));
    case PendingCall::Kind::receive:
      return point_to_point(context).receive(peer, operation.received_bytes(), type,
                                             counted(std::move(operation.done)));
    case PendingCall::Kind::send_tagged:
      return tagged_messages(context).send(peer, operation.sent_bytes(), type, operation.tag,
                                           counted(std::move(operation.done)));
    case PendingCall::Kind::receive_tagged:
      return receive_tagged(std::move(operation), context);
  }
}

void Operations::receive_tagged(Operation&& operation, int context) {
  tagged_messages(context).receive(
      operation.peer, operation.received_bytes(), operation.key.type, operation.tag,
      [this, done = std::move(operation.done), received = operation.received,
       size = size_of(operation.key.type)](const Status& status, uint64_t bytes) {
        if (status.ok()) ++transfers_;
        if (status.ok() && received != nullptr) *received = bytes / size;
        done(status);
      });
}

uint64_t Operations::completed() const {
  uint64_t sum = transfers_;
  for (const auto& each : contexts_) sum += each->executor.completed();
  return sum;
}

Status Operations::end() {
  for (const auto& each : contexts_) R2CCL_RETURN_IF_ERROR(each->tagged_messages.end());
  return {};
}

void Operations::check_invariants() const {
  for (const auto& each : contexts_) each->tagged_messages.check_invariants();
}

void Operations::cancel(const Status& why) {
  for (const auto& each : contexts_) {
    each->executor.cancel(why);
    each->point_to_point.cancel(why);
    each->tagged_messages.cancel(why);
  }
}

void Operations::abandon(const Status& why) noexcept {
  for (const auto& each : contexts_) {
    each->executor.abandon(why);
    each->point_to_point.abandon(why);
    each->tagged_messages.abandon(why);
  }
}

bool Operations::idle() const {
  return std::ranges::all_of(contexts_, [](const auto& each) {
    return each->executor.idle() && each->point_to_point.idle() && each->tagged_messages.idle();
  });
}

bool Operations::idle_but_local() const {
  return std::ranges::all_of(contexts_, [](const auto& each) {
    return each->executor.idle() && each->point_to_point.idle_but_local() &&
           each->tagged_messages.idle_but_local();
  });
}

size_t Operations::unmatched_local() const {
  size_t sum = 0;
  for (const auto& each : contexts_) {
    sum += each->point_to_point.unmatched_local() + each->tagged_messages.unmatched_local();
  }
  return sum;
}

std::vector<Rank> Operations::waits_on() const {
  std::vector<Rank> needed;
  for (const auto& each : contexts_) {
    std::ranges::copy(each->executor.waits_on(), std::back_inserter(needed));
    std::ranges::copy(each->point_to_point.waits_on(), std::back_inserter(needed));
    std::ranges::copy(each->tagged_messages.waits_on(), std::back_inserter(needed));
  }
  return needed;
}

std::optional<BufferUse> Operations::find_buffer(const BadMemory& bad) const {
  for (const auto& each : contexts_) {
    if (auto use = each->executor.find_buffer(bad)) return use;
    if (auto use = each->point_to_point.find_buffer(bad)) return use;
    if (auto use = each->tagged_messages.find_buffer(bad)) return use;
  }
  return std::nullopt;
}

}  // namespace r2ccl
