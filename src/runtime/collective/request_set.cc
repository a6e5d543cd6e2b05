#include "runtime/collective/request_set.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace r2ccl {
namespace {

// A wait for any of many asks other ranks about the first ones only.
constexpr size_t kAwaitedMax = 16;

class Deadline {
 public:
  explicit Deadline(TimeNs timeout) {
    if (timeout == kNever) return;
    const TimeNs now = clock_.now();
    if (timeout < kNever - now) at_ = now + timeout;
  }
  TimeNs left() const { return at_ == kNever ? kNever : std::max<TimeNs>(at_ - clock_.now(), 0); }

 private:
  SystemClock clock_;
  TimeNs at_ = kNever;
};

// Listens to all requests of a span, none of which was complete.
class Watch final : private RequestListener {
 public:
  Watch(RequestSpan requests, RequestDriver& driver) : requests_(requests), driver_(driver) {
    for (const auto& request : requests_) {
      if (request == nullptr) continue;
      if (&request->driver() != &driver_) several_.store(true, std::memory_order_release);
      if (!request->listen(*this)) fired_.store(true, std::memory_order_release);
    }
  }
  ~Watch() {
    for (const auto& request : requests_) {
      if (request != nullptr) request->unlisten();
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  bool fired() const { return fired_.load(std::memory_order_acquire); }
  bool wait(TimeNs timeout) {
    return fired() || driver_.wait_until([this] { return fired(); }, timeout) || fired();
  }

 private:
  // The thread that drives this request looks at the waits after its turn, but only at those for
  // its own driver.
  void on_complete() override {
    if (fired_.exchange(true, std::memory_order_acq_rel)) return;
    if (several_.load(std::memory_order_acquire)) driver_.wake();
  }

  const RequestSpan requests_;
  RequestDriver& driver_;
  std::atomic<bool> several_{false};
  std::atomic<bool> fired_{false};
};

// Says for its lifetime that a thread has waited in the requests for long.
class Awaited {
 public:
  Awaited(RequestSpan requests, TimeNs left) {
    for (const auto& request : requests) {
      if (request == nullptr || request->done() || count_ == chosen_.size()) continue;
      request->begin_long_wait(left);
      chosen_[count_++] = request.get();
    }
  }
  ~Awaited() {
    for (size_t i = 0; i < count_; ++i) chosen_[i]->end_long_wait();
  }
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

 private:
  std::array<Request*, kAwaitedMax> chosen_{};
  size_t count_ = 0;
};

}  // namespace

std::optional<size_t> find_request(RequestSpan requests, bool complete) {
  const auto found = std::ranges::find_if(requests, [complete](const auto& request) {
    return request != nullptr && request->done() == complete;
  });
  if (found == requests.end()) return std::nullopt;
  return static_cast<size_t>(found - requests.begin());
}

bool wait_all(RequestSpan requests, TimeNs timeout) {
  const Deadline deadline(timeout);
  return std::ranges::all_of(requests, [&deadline](const auto& request) {
    return request == nullptr || request->done() || request->wait(deadline.left());
  });
}

std::optional<size_t> wait_any(RequestSpan requests, TimeNs timeout) {
  if (const auto first = find_request(requests, true)) return first;
  const auto pending = find_request(requests, false);
  if (!pending || timeout <= 0) return find_request(requests, true);
  const Deadline deadline(timeout);
  RequestDriver& driver = requests[*pending]->driver();
  {
    Watch watch(requests, driver);
    const TimeNs quiet = Request::quiet_wait(timeout);
    if (!watch.wait(std::min(quiet, deadline.left())) && deadline.left() > 0) {
      const Awaited awaited(requests, deadline.left());
      (void)watch.wait(deadline.left());
    }
  }
  // A driver that ends completes its requests first.
  if (driver.stopped()) (void)requests[*pending]->wait(deadline.left());
  return find_request(requests, true);
}

}  // namespace r2ccl
