#include "runtime/collective/operations.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

Operations::Done Operations::counted(Done done) {
  return [this, done = std::move(done)](const Status& status) {
    if (status.ok()) ++transfers_;
    done(status);
  };
}

uint64_t Operations::collective(CollectiveCall&& call, int context) {
  Executor& all = executor(context);
  const uint64_t number = all.next_number();
  call.key.hosts = hosts_;
  call.key.costs = costs_;
  all.start(std::move(call));
  return number;
}

uint64_t Operations::send(Rank peer, std::span<const std::byte> bytes, DataType type, Done done,
                          int context) {
  PointToPoint& all = point_to_point(context);
  const uint64_t number = all.sends_to(peer) + 1;
  all.send(peer, bytes, type, counted(std::move(done)));
  return number;
}

uint64_t Operations::receive(Rank peer, std::span<std::byte> bytes, DataType type, Done done,
                             int context) {
  PointToPoint& all = point_to_point(context);
  const uint64_t number = all.receives_from(peer) + 1;
  all.receive(peer, bytes, type, counted(std::move(done)));
  return number;
}

uint64_t Operations::send_tagged(Rank peer, std::span<const std::byte> bytes, DataType type,
                                 int32_t tag, Done done, int context) {
  TaggedMessages& all = tagged_messages(context);
  const uint64_t number = all.sends_to(peer) + 1;
  all.send(peer, bytes, type, tag, counted(std::move(done)));
  return number;
}

uint64_t Operations::receive_tagged(Rank peer, std::span<std::byte> bytes, DataType type,
                                    int32_t tag, TaggedMessages::ReceiveDone done, int context) {
  TaggedMessages& all = tagged_messages(context);
  const uint64_t number = all.receives_from(peer) + 1;
  all.receive(peer, bytes, type, tag,
              [this, done = std::move(done)](const Status& status, uint64_t size) {
                if (status.ok()) ++transfers_;
                done(status, size);
              });
  return number;
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
