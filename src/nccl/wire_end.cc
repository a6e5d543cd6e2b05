#include "nccl/wire_end.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace r2ccl::nccl {

WireEnd::WireEnd(ProgressThread& driver, uint32_t number, bool sends, const Warn& warn)
    : driver_(driver), number_(number), sends_(sends), warn_(warn) {
  for (Request& request : requests_) request.end_ = this;
}

WireEnd::Request* WireEnd::take() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    Request& request = requests_[next_];
    next_ = (next_ + 1) % requests_.size();
    if (request.state_.load(std::memory_order_acquire) == Request::State::free) return &request;
  }
  return nullptr;
}

WireEnd::Request* WireEnd::send(std::span<const std::byte> bytes) {
  R2CCL_CHECK(sends_ && bytes.size() <= limits::kMessageBytesMax);
  // The link only reads the bytes of a message that is sent.
  return begin({const_cast<std::byte*>(bytes.data()), bytes.size()});
}

WireEnd::Request* WireEnd::receive(std::span<std::byte> bytes) {
  R2CCL_CHECK(!sends_);
  return begin(bytes);
}

WireEnd::Request* WireEnd::begin(std::span<std::byte> bytes) {
  Request* request = take();
  if (request == nullptr) return nullptr;
  request->data_ = bytes.data();
  request->size_ = bytes.size();
  request->state_.store(Request::State::posted, std::memory_order_relaxed);
  driver_.post(*request);
  driver_.poll();
  return request;
}

Outcome WireEnd::Request::test(bool* ended, size_t* bytes) {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::posted) {
    end_->driver_.poll();
    state = state_.load(std::memory_order_acquire);
  }
  R2CCL_CHECK(state != State::free);
  *ended = state == State::done;
  if (state == State::posted) return kSuccess;
  *bytes = size_;
  // NCCL 2.22 asks again after an error. The connection is over, so nobody needs the slot.
  if (state == State::failed) return end_->outcome();
  state_.store(State::free, std::memory_order_release);
  return kSuccess;
}

void WireEnd::open(MessagePort& port, Rank peer) {
  R2CCL_CHECK(port_ == nullptr);
  port_ = &port;
  port.open_channel(channel_of(context(), 0), *this, peer);
  port.expect_messages();
}

void WireEnd::post(Request& request) {
  if (port_ == nullptr) {
    request.state_.store(Request::State::failed, std::memory_order_release);
    return;
  }
  const ChannelId channel = channel_of(context(), 0);
  request.in_link_ = true;
  request.number_ = sends_ ? port_->post_send(channel, {request.data_, request.size_}, kNoContext)
                           : port_->post_standing_receive(channel, {request.data_, request.size_});
}

WireEnd::Request* WireEnd::find(MessageNo number) {
  const auto found = std::ranges::find_if(requests_, [number](const Request& request) {
    return request.in_link_ && request.number_ == number;
  });
  R2CCL_CHECK(found != requests_.end());
  return &*found;
}

void WireEnd::on_sent(Rank, ChannelId, MessageNo number) {
  Request& request = *find(number);
  request.in_link_ = false;
  request.state_.store(Request::State::done, std::memory_order_release);
}

void WireEnd::on_received(Rank, ChannelId, MessageNo number, uint64_t bytes) {
  Request& request = *find(number);
  request.in_link_ = false;
  request.size_ = bytes;
  request.state_.store(Request::State::done, std::memory_order_release);
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
  return std::ranges::any_of(requests_, [](const Request& request) { return request.in_link_; });
}

void WireEnd::cut() {
  if (port_ == nullptr) return;
  port_->cancel_channel(channel_of(context(), 0));
  end_requests();
}

void WireEnd::abandon() noexcept {
  outcome_.store(kInternalError, std::memory_order_release);
  end_requests();
}

void WireEnd::end_requests() noexcept {
  port_ = nullptr;
  for (Request& request : requests_) {
    if (!std::exchange(request.in_link_, false)) continue;
    request.state_.store(Request::State::failed, std::memory_order_release);
  }
}

}  // namespace r2ccl::nccl
