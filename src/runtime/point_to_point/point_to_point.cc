#include "runtime/point_to_point/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"

namespace r2ccl {
namespace {

uint64_t operation_context(uint64_t bytes, DataType type) {
  return hash_of({bytes, static_cast<uint64_t>(type)});
}

size_t index_of(Rank rank) {
  return static_cast<size_t>(rank.value());
}

}  // namespace

PointToPoint::PointToPoint(Rank self, ChannelId channel, std::vector<MessagePort*> ports)
    : self_(self), channel_(channel), ports_(std::move(ports)), peers_(ports_.size()) {
  for (size_t rank = 0; rank < ports_.size(); ++rank) {
    R2CCL_CHECK((ports_[rank] == nullptr) == (rank == index_of(self)));
    if (ports_[rank] == nullptr) continue;
    ports_[rank]->open_channel(channel_, *this, Rank(static_cast<int32_t>(rank)));
  }
}

PointToPoint::Peer& PointToPoint::at(Rank peer) {
  std::unique_ptr<Peer>& found = peers_[index_of(peer)];
  if (found == nullptr) found = std::make_unique<Peer>();
  return *found;
}

PointToPoint::~PointToPoint() {
  cancel(Status::in_any_case(Code::aborted, "the communicator was destroyed"));
}

void PointToPoint::send(Rank peer, std::span<const std::byte> bytes, DataType type, Done done) {
  Transfer operation;
  operation.source = bytes;
  operation.bytes = bytes.size();
  operation.context = operation_context(bytes.size(), type);
  operation.done = std::move(done);
  enqueue(peer, &Peer::sends, std::move(operation));
}

void PointToPoint::receive(Rank peer, std::span<std::byte> bytes, DataType type, Done done) {
  Transfer operation;
  operation.target = bytes;
  operation.bytes = bytes.size();
  operation.context = operation_context(bytes.size(), type);
  operation.done = std::move(done);
  enqueue(peer, &Peer::receives, std::move(operation));
}

void PointToPoint::send_frame(Rank peer, std::span<const std::byte> frame, Done done) {
  Transfer operation;
  operation.source = frame;
  operation.bytes = frame.size();
  operation.done = std::move(done);
  enqueue(peer, &Peer::sends, std::move(operation));
}

void PointToPoint::receive_frame(Rank peer, std::span<std::byte> room, Done done) {
  Transfer operation;
  operation.target = room;
  operation.bytes = room.size();
  operation.done = std::move(done);
  enqueue(peer, &Peer::receives, std::move(operation));
}

void PointToPoint::enqueue(Rank peer, Queue Peer::*direction, Transfer operation) {
  if (!failure_.ok()) {
    operation.done(failure_);
    return;
  }
  Queue& queue = at(peer).*direction;
  const uint64_t pieces =
      (operation.bytes + limits::kMessageBytesMax - 1) / limits::kMessageBytesMax;
  operation.messages = std::max<uint64_t>(pieces, 1);
  operation.first = queue.next_number;
  operation.number = ++queue.started;
  queue.next_number += operation.messages;
  queue.operations.push_back(std::move(operation));
  ++unfinished_;
  if (peer == self_) {
    match_local();
  } else {
    post_more(peer, queue);
  }
}

void PointToPoint::post_more(Rank peer, Queue& queue) {
  MessagePort& port = *ports_[index_of(peer)];
  const bool sending = &queue == &at(peer).sends;
  while (queue.posting < queue.operations.size() &&
         queue.message_done.size() < limits::kMessagesPostedMax) {
    Transfer& operation = *(queue.operations.begin() + static_cast<std::ptrdiff_t>(queue.posting));
    const MessageNo number = post(port, operation, sending);
    R2CCL_CHECK(number.value() == operation.first + operation.posted);
    queue.message_done.push_back(0);
    if (++operation.posted == operation.messages) ++queue.posting;
  }
  if (sending && queue.posting == queue.operations.size()) port.release_send_buffers(channel_);
}

// Posts the next message of the operation.
MessageNo PointToPoint::post(MessagePort& port, const Transfer& operation, bool sending) {
  const uint64_t offset = operation.posted * limits::kMessageBytesMax;
  const uint64_t bytes = std::min(operation.bytes - offset, limits::kMessageBytesMax);
  if (sending) {
    return port.post_send(channel_, operation.source.subspan(offset, bytes), operation.context);
  }
  const auto target = operation.target.subspan(offset, bytes);
  if (operation.context == kNoContext) return port.post_standing_receive(channel_, target);
  return port.post_receive(channel_, target, operation.context);
}

void PointToPoint::on_sent(Rank peer, ChannelId, MessageNo number) {
  if (failure_.ok()) message_complete(peer, at(peer).sends, number);
}

void PointToPoint::on_received(Rank peer, ChannelId, MessageNo number, uint64_t) {
  if (failure_.ok()) message_complete(peer, at(peer).receives, number);
}

void PointToPoint::on_mismatch(Rank peer, ChannelId, const Status& why) {
  if (on_mismatch_) return on_mismatch_(peer, why);
  cancel(why.with_context("send and receive with rank " + std::to_string(peer.value())));
}

void PointToPoint::message_complete(Rank peer, Queue& queue, MessageNo number) {
  const uint64_t ahead = number.value() - queue.low;
  R2CCL_CHECK(ahead < queue.message_done.size());
  uint8_t& message_done = *(queue.message_done.begin() + static_cast<std::ptrdiff_t>(ahead));
  R2CCL_CHECK(message_done == 0);
  message_done = 1;
  while (!queue.message_done.empty() && queue.message_done.front() == 1) {
    queue.message_done.pop_front();
    ++queue.low;
  }
  post_more(peer, queue);  // first, because it may run out of memory: cancel() ends what is here
  const auto after = std::partition_point(
      queue.operations.begin(), queue.operations.end(),
      [&](const Transfer& operation) { return operation.first <= number.value(); });
  Transfer& operation = *(after - 1);
  if (++operation.completed < operation.messages) return;
  const Done done = std::exchange(operation.done, nullptr);
  while (!queue.operations.empty() &&
         queue.operations.front().completed == queue.operations.front().messages) {
    queue.operations.pop_front();
    --queue.posting;
  }
  --unfinished_;
  done(Status::ok_status());
}

size_t PointToPoint::unmatched_local() const {
  const Peer* self = find(self_);
  return self == nullptr ? 0 : self->sends.operations.size() + self->receives.operations.size();
}

void PointToPoint::match_local() {
  auto& [sends, receives] = at(self_);
  while (!sends.operations.empty() && !receives.operations.empty()) {
    if (sends.operations.front().context != receives.operations.front().context) {
      cancel(Status(Code::invalid_usage,
                    "rank " + std::to_string(self_.value()) +
                        " sends to itself with another size or type than it receives"));
      return;
    }
    const Transfer send = std::move(*sends.operations.begin());
    const Transfer receive = std::move(*receives.operations.begin());
    sends.operations.pop_front();
    receives.operations.pop_front();
    unfinished_ -= 2;
    // memmove, because a rank may send a buffer to the same place.
    if (send.bytes > 0) std::memmove(receive.target.data(), send.source.data(), send.bytes);
    send.done(Status::ok_status());
    receive.done(Status::ok_status());
  }
}

void PointToPoint::cancel(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  for (MessagePort* port : ports_) {
    if (port != nullptr) port->cancel_channel(channel_);
  }
  abandon(why);
}

// One after the other: each operation is either still there or has ended.
void PointToPoint::abandon(const Status& why) noexcept {
  if (failure_.ok()) failure_ = why;
  const auto end = [this](Queue& queue) {
    while (!queue.operations.empty()) {
      const Done done = std::move(queue.operations.begin()->done);
      queue.operations.pop_front();
      if (!done) continue;
      --unfinished_;
      done(failure_);
    }
    queue = Queue();
  };
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer != nullptr) end(peer->sends);
  }
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer != nullptr) end(peer->receives);
  }
}

uint64_t PointToPoint::sends_to(Rank peer) const {
  const Peer* known = find(peer);
  return known == nullptr ? 0 : known->sends.started;
}

uint64_t PointToPoint::receives_from(Rank peer) const {
  const Peer* known = find(peer);
  return known == nullptr ? 0 : known->receives.started;
}

std::optional<BufferUse> PointToPoint::find_buffer(const BadMemory& bad) const {
  const bool sends = bad.access == Access::read;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer] == nullptr) continue;
    const Queue& queue = sends ? peers_[peer]->sends : peers_[peer]->receives;
    for (const Transfer& operation : queue.operations) {
      const std::byte* begin = sends ? operation.source.data() : operation.target.data();
      if (!offset_in(begin, operation.bytes, bad.at)) continue;
      return use_of(Rank(static_cast<int32_t>(peer)), operation.number, {begin, operation.bytes},
                    bad);
    }
  }
  return std::nullopt;
}

BufferUse PointToPoint::use_of(Rank peer, uint64_t number, std::span<const std::byte> bytes,
                               const BadMemory& bad) {
  const bool sends = bad.access == Access::read;
  BufferUse use;
  use.call = (sends ? "Send " : "Recv ") + std::to_string(number) +
             (sends ? " to rank " : " from rank ") + std::to_string(peer.value());
  use.buffer = sends ? "sendbuff" : "recvbuff";
  use.offset = offset_in(bytes.data(), bytes.size(), bad.at).value_or(0);
  use.bytes = bytes.size();
  return use;
}

BufferUse PointToPoint::use_by_next(Rank peer, std::span<const std::byte> bytes,
                                    const BadMemory& bad) const {
  const uint64_t before = bad.access == Access::read ? sends_to(peer) : receives_from(peer);
  return use_of(peer, before + 1, bytes, bad);
}

std::vector<Rank> PointToPoint::waits_on() const {
  std::vector<Rank> peers;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer* peer = peers_[rank].get();
    if (peer == nullptr) continue;
    if (peer->sends.message_done.empty() && peer->receives.message_done.empty()) continue;
    peers.emplace_back(static_cast<int32_t>(rank));
  }
  return peers;
}

}  // namespace r2ccl
