#include "sim/fabric/poller.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr size_t kFirstId = 3;

}  // namespace

SimPoller::Slot* SimPoller::find(int poll_id) {
  const auto index = static_cast<size_t>(poll_id);
  const bool known = poll_id >= 0 && index < slots_.size() && slots_[index].source != nullptr;
  return known ? &slots_[index] : nullptr;
}

int SimPoller::attach(const PollSource& source) {
  // As in a process, the first ids are taken.
  if (slots_.empty()) slots_.resize(kFirstId);
  slots_.push_back({.source = &source});
  return static_cast<int>(slots_.size() - 1);
}

void SimPoller::detach(int poll_id) {
  Slot* slot = find(poll_id);
  R2CCL_CHECK(slot != nullptr);
  // The contract of Poller::remove, which epoll cannot check.
  R2CCL_CHECK(!slot->watched);
  *slot = {};
}

Status SimPoller::add(int poll_id, uint64_t token, bool want_write) {
  Slot* slot = find(poll_id);
  if (slot == nullptr) return system_error("add to poller", EBADF);
  if (slot->watched) return system_error("add to poller", EEXIST);
  slot->watched = true;
  modify(poll_id, token, want_write);
  return {};
}

void SimPoller::modify(int poll_id, uint64_t token, bool want_write) {
  Slot* slot = find(poll_id);
  R2CCL_CHECK(slot != nullptr && slot->watched);
  slot->token = token;
  slot->want_write = want_write;
  touch(poll_id);
}

void SimPoller::remove(int poll_id) {
  if (Slot* slot = find(poll_id)) slot->watched = false;
  std::erase(candidates_, poll_id);
}

void SimPoller::wake() {
  woken_ = true;
  if (on_ready_) on_ready_();
}

// Requires that the source is watched.
PollEvent SimPoller::event_of(int poll_id) const {
  const Slot& slot = slots_[static_cast<size_t>(poll_id)];
  return {slot.token, slot.source->readable(), slot.want_write && slot.source->writable()};
}

void SimPoller::touch(int poll_id) {
  const Slot* slot = find(poll_id);
  if (slot == nullptr || !slot->watched) return;
  const PollEvent event = event_of(poll_id);
  if (!event.readable && !event.writable) return;
  const auto place = std::ranges::lower_bound(candidates_, poll_id);
  if (place == candidates_.end() || *place != poll_id) candidates_.insert(place, poll_id);
  if (on_ready_) on_ready_();
}

bool SimPoller::watches(int poll_id) const {
  const auto index = static_cast<size_t>(poll_id);
  return poll_id >= 0 && index < slots_.size() && slots_[index].watched;
}

bool SimPoller::has_events() {
  if (woken_) return true;
  while (!candidates_.empty()) {
    const PollEvent event = event_of(candidates_.front());
    if (event.readable || event.writable) return true;
    candidates_.erase(candidates_.begin());
  }
  return false;
}

size_t SimPoller::collect(std::span<PollEvent> events) {
  size_t count = 0;
  auto next = std::ranges::upper_bound(candidates_, resume_after_);
  for (size_t left = candidates_.size(); left > 0 && count < events.size(); --left) {
    if (next == candidates_.end()) next = candidates_.begin();
    const PollEvent event = event_of(*next);
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
