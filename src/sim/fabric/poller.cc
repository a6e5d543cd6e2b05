#include "sim/fabric/poller.h"

#include <cerrno>

#include "base/check.h"

namespace r2ccl::sim {

int SimPoller::attach(const PollSource& source) {
  const int id = next_poll_id_++;
  sources_[id] = &source;
  return id;
}

void SimPoller::detach(int poll_id) {
  // The contract of Poller::remove, which epoll cannot check.
  R2CCL_CHECK(!interests_.contains(poll_id));
  sources_.erase(poll_id);
}

Status SimPoller::add(int poll_id, uint64_t token, bool want_write) {
  if (!sources_.contains(poll_id)) return system_error("add to poller", EBADF);
  if (!interests_.emplace(poll_id, Interest{token, want_write}).second) {
    return system_error("add to poller", EEXIST);
  }
  touch(poll_id);
  return {};
}

void SimPoller::modify(int poll_id, uint64_t token, bool want_write) {
  const auto interest = interests_.find(poll_id);
  R2CCL_CHECK(interest != interests_.end());
  interest->second = {token, want_write};
  touch(poll_id);
}

void SimPoller::remove(int poll_id) {
  interests_.erase(poll_id);
  candidates_.erase(poll_id);
}

void SimPoller::wake() {
  woken_ = true;
  if (on_ready_) on_ready_();
}

PollEvent SimPoller::event_of(int poll_id, const Interest& interest) const {
  const PollSource& source = *sources_.at(poll_id);
  return {interest.token, source.readable(), interest.want_write && source.writable()};
}

void SimPoller::touch(int poll_id) {
  const auto interest = interests_.find(poll_id);
  if (interest == interests_.end()) return;
  const PollEvent event = event_of(poll_id, interest->second);
  if (!event.readable && !event.writable) return;
  candidates_.insert(poll_id);
  if (on_ready_) on_ready_();
}

bool SimPoller::has_events() {
  if (woken_) return true;
  while (!candidates_.empty()) {
    const int id = *candidates_.begin();
    const PollEvent event = event_of(id, interests_.at(id));
    if (event.readable || event.writable) return true;
    candidates_.erase(id);
  }
  return false;
}

size_t SimPoller::collect(std::span<PollEvent> events) {
  size_t count = 0;
  auto next = candidates_.upper_bound(resume_after_);
  for (size_t left = candidates_.size(); left > 0 && count < events.size(); --left) {
    if (next == candidates_.end()) next = candidates_.begin();
    const PollEvent event = event_of(*next, interests_.at(*next));
    if (event.readable || event.writable) {
      resume_after_ = *next++;
      events[count++] = event;
    } else {
      next = candidates_.erase(next);
    }
  }
  return count;
}

size_t SimPoller::wait(std::span<PollEvent> events, TimeNs timeout_ns) {
  size_t count = collect(events);
  if (driver_ && timeout_ns > 0) {
    const TimeNs deadline = timeout_ns == kNever ? kNever : clock_->now() + timeout_ns;
    while (count == 0 && !woken_ && driver_(deadline)) count = collect(events);
  }
  // An actor waits outside: the driver runs it when it is ready or woken.
  if (timeout_ns > 0 || !driver_) woken_ = false;
  return count;
}

}  // namespace r2ccl::sim
