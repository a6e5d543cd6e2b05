#include "runtime/collective/operations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

// The places of a context's channels: collectives, Send and Recv, and the frames and the payloads
// of tagged messages.
enum Place : uint8_t { collectives, transfers, tagged_frames, tagged_payloads };
static_assert(tagged_payloads + 1 == kChannelsOfContext);

}  // namespace

Operations::Operations(Rank self, const std::vector<MessagePort*>& ports, ContextId context,
                       HostGroups hosts, const PlanCosts& costs)
    : hosts_(std::move(hosts)),
      costs_(costs),
      executor_(self, channel_of(context, collectives), ports),
      point_to_point_(self, channel_of(context, transfers), ports),
      tagged_messages_(self, channel_of(context, tagged_frames),
                       channel_of(context, tagged_payloads), ports) {}

Operation::Done Operations::counted(Operation::Done&& done) {
  return [this, done = std::move(done)](const Status& status) {
    if (status.ok()) ++transfers_;
    done(status);
  };
}

uint64_t Operations::next_number(const Operation& operation) const {
  switch (operation.kind) {
    case PendingCall::Kind::collective:
      return executor_.next_number();
    case PendingCall::Kind::send:
      return point_to_point_.sends_to(operation.peer) + 1;
    case PendingCall::Kind::receive:
      return point_to_point_.receives_from(operation.peer) + 1;
    case PendingCall::Kind::send_tagged:
      return tagged_messages_.sends_to(operation.peer) + 1;
    case PendingCall::Kind::receive_tagged:
      return tagged_messages_.receives_from(operation.peer) + 1;
  }
  return 0;
}

BufferUse Operations::use_by_next(const Operation& operation, const BadMemory& bad) const {
  switch (operation.kind) {
    case PendingCall::Kind::collective:
      return executor_.use_of(operation, next_number(operation), bad);
    case PendingCall::Kind::send:
      return point_to_point_.use_by_next(operation.peer, operation.sent_bytes(), bad);
    case PendingCall::Kind::receive:
      return point_to_point_.use_by_next(operation.peer, operation.received_bytes(), bad);
    case PendingCall::Kind::send_tagged:
      return tagged_messages_.use_by_next(operation.peer, operation.tag, operation.sent_bytes(),
                                          bad);
    case PendingCall::Kind::receive_tagged:
      return tagged_messages_.use_by_next(operation.peer, operation.tag, operation.received_bytes(),
                                          bad);
  }
  return {};
}

uint64_t Operations::start(Operation&& operation) {
  if (operation.kind == PendingCall::Kind::collective) {
    Executor& all = executor_;
    const uint64_t number = all.next_number();
    operation.key.hosts = hosts_;
    operation.key.costs = costs_;
    all.start(std::move(operation));
    return number;
  }
  const uint64_t number = next_number(operation);
  start_transfer(std::move(operation));
  return number;
}

void Operations::start_transfer(Operation&& operation) {
  const Rank peer = operation.peer;
  const DataType type = operation.key.type;
  switch (operation.kind) {
    case PendingCall::Kind::collective:
      R2CCL_CHECK(false);
      return;
    case PendingCall::Kind::send:
      return point_to_point_.send(peer, operation.sent_bytes(), type,
                                  counted(std::move(operation.done)));
    case PendingCall::Kind::receive:
      return point_to_point_.receive(peer, operation.received_bytes(), type,
                                     counted(std::move(operation.done)));
    case PendingCall::Kind::send_tagged:
      return tagged_messages_.send(peer, operation.sent_bytes(), type, operation.tag,
                                   counted(std::move(operation.done)));
    case PendingCall::Kind::receive_tagged:
      return receive_tagged(std::move(operation));
  }
}

void Operations::receive_tagged(Operation&& operation) {
  tagged_messages_.receive(
      operation.peer, operation.received_bytes(), operation.key.type, operation.tag,
      [this, done = std::move(operation.done), received = operation.received,
       size = size_of(operation.key.type)](const Status& status, uint64_t bytes) {
        if (status.ok()) ++transfers_;
        if (status.ok() && received != nullptr) *received = bytes / size;
        done(status);
      });
}

uint64_t Operations::completed() const {
  return transfers_ + executor_.completed();
}

Status Operations::end() {
  return tagged_messages_.end();
}

void Operations::check_invariants() const {
  tagged_messages_.check_invariants();
}

void Operations::cancel(const Status& why) {
  executor_.cancel(why);
  point_to_point_.cancel(why);
  tagged_messages_.cancel(why);
}

void Operations::abandon(const Status& why) noexcept {
  executor_.abandon(why);
  point_to_point_.abandon(why);
  tagged_messages_.abandon(why);
}

bool Operations::idle() const {
  return executor_.idle() && point_to_point_.idle() && tagged_messages_.idle();
}

bool Operations::idle_but_local() const {
  return executor_.idle() && point_to_point_.idle_but_local() && tagged_messages_.idle_but_local();
}

size_t Operations::unmatched_local() const {
  return point_to_point_.unmatched_local() + tagged_messages_.unmatched_local();
}

std::vector<Rank> Operations::waits_on() const {
  std::vector<Rank> needed = executor_.waits_on();
  std::ranges::copy(point_to_point_.waits_on(), std::back_inserter(needed));
  std::ranges::copy(tagged_messages_.waits_on(), std::back_inserter(needed));
  return needed;
}

std::optional<BufferUse> Operations::find_buffer(const BadMemory& bad) const {
  if (auto use = executor_.find_buffer(bad)) return use;
  if (auto use = point_to_point_.find_buffer(bad)) return use;
  return tagged_messages_.find_buffer(bad);
}

}  // namespace r2ccl
