#include "nccl/wire_end.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace r2ccl::nccl {

std::optional<LaneName> LaneName::of(ContextId context) {
  const uint64_t tag = context.value() >> kNumberBits;
  const uint64_t number = context.value() & ((uint64_t{1} << kNumberBits) - 1);
  if (tag == 0 || tag > uint64_t{1} << 32 || number < kFirstContext) return std::nullopt;
  return LaneName{static_cast<uint32_t>(number - kFirstContext),
                  static_cast<int>(static_cast<uint32_t>(tag - 1))};
}

// The other process may send with one tag after the other before it receives the first one, so an
// end that sends has a slot for each message that the other end may receive.
WireEnd::WireEnd(ProgressThread& driver, uint32_t number, bool sends, const Warn& warn)
    : driver_(driver),
      number_(number),
      sends_(sends),
      warn_(warn),
      slots_(sends ? kRequestsMax * kReceivesMax : kRequestsMax),
      messages_(new Message[kRequestsMax * kReceivesMax]),
      requests_(new Request[slots_]) {
  const size_t each = kRequestsMax * kReceivesMax / slots_;
  for (size_t i = 0; i < slots_; ++i) {
    requests_[i].end_ = this;
    requests_[i].messages_ = &messages_[i * each];
  }
}

// The first slots are used most, so that few have to be looked at.
WireEnd::Request* WireEnd::take() {
  for (size_t i = 0; i < slots_; ++i) {
    Request& request = requests_[i];
    if (request.state_.load(std::memory_order_acquire) == Request::State::free) return &request;
  }
  return nullptr;
}

WireEnd::Request* WireEnd::send(std::span<const std::byte> bytes, int tag) {
  R2CCL_CHECK(sends_ && bytes.size() <= limits::kMessageBytesMax);
  Request* const request = take();
  if (request == nullptr) return nullptr;
  // The link only reads the bytes of a message that is sent.
  request->messages_[0] = {const_cast<std::byte*>(bytes.data()), bytes.size(), tag};
  return begin(*request, 1);
}

WireEnd::Request* WireEnd::receive(std::span<const std::span<std::byte>> buffers, const int* tags) {
  R2CCL_CHECK(!sends_ && !buffers.empty() && buffers.size() <= kReceivesMax);
  Request* const request = take();
  if (request == nullptr) return nullptr;
  for (size_t i = 0; i < buffers.size(); ++i) {
    request->messages_[i] = {buffers[i].data(), buffers[i].size(), tags[i]};
  }
  return begin(*request, buffers.size());
}

WireEnd::Request* WireEnd::begin(Request& request, size_t messages) {
  request.count_ = messages;
  request.state_.store(Request::State::posted, std::memory_order_relaxed);
  driver_.post(request);
  driver_.poll();
  return &request;
}

Outcome WireEnd::Request::test(bool* ended, int* sizes) {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::posted) {
    end_->driver_.poll();
    state = state_.load(std::memory_order_acquire);
  }
  R2CCL_CHECK(state != State::free);
  *ended = state == State::done;
  if (state == State::posted) return kSuccess;
  // NCCL 2.22 asks again after an error. The connection is over, and the slot is not needed.
  if (state == State::failed) return end_->outcome();
  for (size_t i = 0; sizes != nullptr && i < count_; ++i) {
    sizes[i] = static_cast<int>(messages_[i].size);
  }
  state_.store(State::free, std::memory_order_release);
  return kSuccess;
}

void WireEnd::open(MessagePort& port, Rank peer, NicId nic, std::function<bool()> has_room) {
  R2CCL_CHECK(port_ == nullptr);
  port_ = &port;
  peer_ = peer;
  nic_ = nic;
  has_room_ = std::move(has_room);
  port.expect_messages();
}

WireEnd::Lane* WireEnd::find_lane(int tag) {
  const auto found = std::ranges::find(lanes_, tag, &Lane::tag);
  return found == lanes_.end() ? nullptr : &*found;
}

WireEnd::Lane& WireEnd::add_lane(int tag) {
  R2CCL_CHECK(find_lane(tag) == nullptr);
  lanes_.push_back({tag, LaneName{number_, tag}.context()});
  if (port_ == nullptr) return lanes_.back();
  const ChannelId channel = channel_of(lanes_.back().context, 0);
  port_->open_channel(channel, *this, peer_);
  if (nic_ != kNoNic) port_->prefer_nic(channel, nic_);
  return lanes_.back();
}

bool WireEnd::on_new_lane(int tag) {
  if (find_lane(tag) == nullptr) add_lane(tag);
  return port_ != nullptr;
}

void WireEnd::post(Request& request) {
  posted_ = std::max(posted_, static_cast<size_t>(&request - requests_.get()) + 1);
  request.left_ = request.count_;
  for (Message& message : request.messages()) {
    if (port_ != nullptr && find_lane(message.tag) == nullptr && !has_room_()) {
      warn_("two processes have too many connections with each other, and tags of these");
      fail(kInvalidUsage);
    }
    if (port_ == nullptr) break;
    Lane* lane = find_lane(message.tag);
    if (lane == nullptr) lane = &add_lane(message.tag);
    message.channel = channel_of(lane->context, 0);
    message.in_link = true;
    const std::span<std::byte> bytes(message.data, message.size);
    message.number = sends_ ? port_->post_send(message.channel, bytes, kNoContext)
                            : port_->post_standing_receive(message.channel, bytes);
  }
  if (port_ == nullptr) end_requests();
}

// `bytes`: the size that a received message has.
void WireEnd::end_message(ChannelId channel, MessageNo number, std::optional<uint64_t> bytes) {
  for (size_t i = 0; i < posted_; ++i) {
    Request& request = requests_[i];
    if (request.left_ == 0) continue;
    for (Message& message : request.messages()) {
      if (!message.in_link || message.channel != channel || message.number != number) continue;
      message.in_link = false;
      message.size = bytes.value_or(message.size);
      if (--request.left_ > 0) return;
      return request.state_.store(Request::State::done, std::memory_order_release);
    }
  }
  R2CCL_CHECK(!"a message of this end");
}

void WireEnd::on_sent(Rank, ChannelId channel, MessageNo number) {
  end_message(channel, number, std::nullopt);
}

void WireEnd::on_received(Rank, ChannelId channel, MessageNo number, uint64_t bytes) {
  end_message(channel, number, bytes);
}

// The message is larger than its receive, which NCCL never does.
void WireEnd::on_mismatch(Rank, ChannelId, const Status& why) {
  if (outcome() == kSuccess) warn_("a message is larger than its receive: " + why.message());
  fail(kInvalidUsage);
}

void WireEnd::fail(Outcome outcome) {
  R2CCL_CHECK(outcome != kSuccess);
  Outcome none = kSuccess;
  outcome_.compare_exchange_strong(none, outcome, std::memory_order_acq_rel);
  cut();
}

bool WireEnd::busy() const {
  return std::any_of(requests_.get(), requests_.get() + posted_,
                     [](const Request& request) { return request.left_ > 0; });
}

void WireEnd::cut() {
  if (port_ == nullptr) return;
  for (const Lane& lane : lanes_) port_->cancel_channel(channel_of(lane.context, 0));
  end_requests();
}

void WireEnd::abandon() noexcept {
  outcome_.store(kInternalError, std::memory_order_release);
  end_requests();
}

void WireEnd::end_requests() noexcept {
  port_ = nullptr;
  for (size_t i = 0; i < posted_; ++i) {
    Request& request = requests_[i];
    if (std::exchange(request.left_, 0) == 0) continue;
    request.state_.store(Request::State::failed, std::memory_order_release);
  }
}

}  // namespace r2ccl::nccl
