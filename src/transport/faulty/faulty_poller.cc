#include "transport/faulty/faulty_poller.h"

#include <algorithm>
#include <array>

#include "transport/faulty/fault_plan.h"

namespace r2ccl {
namespace {

constexpr int kFirstId = 1 << 30;  // far above any descriptor
constexpr size_t kBatch = 64;

}  // namespace

FaultyPoller::FaultyPoller(Poller& inner, const Clock& clock, FaultPlan& plan)
    : inner_(inner), clock_(clock), plan_(plan), next_id_(kFirstId) {
  plan_.add_poller(this);
}

FaultyPoller::~FaultyPoller() {
  plan_.remove_poller(this);
  for (auto& [poll_id, entry] : entries_) {
    if (entry.inner_id >= 0) inner_.remove(entry.inner_id);
  }
}

int FaultyPoller::enroll(FaultyPollable* pollable) {
  const int id = next_id_++;
  enrolled_[id] = pollable;
  return id;
}

void FaultyPoller::withdraw(int poll_id) {
  enrolled_.erase(poll_id);
}

void FaultyPoller::forget_inner(int poll_id) {
  const auto found = entries_.find(poll_id);
  if (found != entries_.end()) watch(poll_id, found->second, {});
}

Status FaultyPoller::add(int poll_id, uint64_t token, bool want_write) {
  if (const int error = plan_.next_operation(); error != 0) {
    return system_error("poller add", error);
  }
  const auto pollable = enrolled_.find(poll_id);
  Entry entry{.token = token, .want_write = want_write};
  if (pollable != enrolled_.end()) {
    entry.pollable = pollable->second;  // the next wait() registers it with the inner poller
  } else {
    R2CCL_RETURN_IF_ERROR(inner_.add(poll_id, static_cast<uint64_t>(poll_id), want_write));
    entry.inner_id = poll_id;
    entry.inner_want_write = want_write;
  }
  const bool is_new = entries_.emplace(poll_id, entry).second;
  R2CCL_CHECK(is_new);
  return {};
}

void FaultyPoller::modify(int poll_id, uint64_t token, bool want_write) {
  const auto found = entries_.find(poll_id);
  R2CCL_CHECK(found != entries_.end());
  found->second.token = token;
  found->second.want_write = want_write;
  if (found->second.pollable == nullptr) {
    inner_.modify(poll_id, static_cast<uint64_t>(poll_id), want_write);
  }
}

void FaultyPoller::remove(int poll_id) {
  const auto found = entries_.find(poll_id);
  R2CCL_CHECK(found != entries_.end());
  if (found->second.inner_id >= 0) inner_.remove(found->second.inner_id);
  entries_.erase(found);
}

void FaultyPoller::watch(int poll_id, Entry& entry, const FaultyPollable::Readiness& readiness) {
  const auto inner_token = static_cast<uint64_t>(poll_id);
  if (entry.inner_id != readiness.inner_id) {
    if (entry.inner_id >= 0) inner_.remove(entry.inner_id);
    entry.inner_id = -1;
    // The next wait() repeats an add that the kernel refused (no memory).
    if (readiness.inner_id >= 0 &&
        inner_.add(readiness.inner_id, inner_token, readiness.inner_want_write).ok()) {
      entry.inner_id = readiness.inner_id;
    }
  } else if (entry.inner_id >= 0 && entry.inner_want_write != readiness.inner_want_write) {
    inner_.modify(entry.inner_id, inner_token, readiness.inner_want_write);
  }
  entry.inner_want_write = readiness.inner_want_write;
}

size_t FaultyPoller::look_at_all(std::span<PollEvent> events, TimeNs now, TimeNs& look_again_at) {
  for (const auto& [poll_id, pollable] : enrolled_) {
    if (!entries_.contains(poll_id)) {
      look_again_at = std::min(look_again_at, pollable->move_held(now));
    }
  }
  size_t filled = 0;
  for (auto& [poll_id, entry] : entries_) {
    if (entry.pollable == nullptr) continue;
    const FaultyPollable::Readiness readiness = entry.pollable->readiness(now, entry.want_write);
    watch(poll_id, entry, readiness);
    look_again_at = std::min(look_again_at, readiness.look_again_at);
    const bool writable = readiness.writable && entry.want_write;
    if ((readiness.readable || writable) && filled < events.size()) {
      events[filled++] = {
          .token = entry.token, .readable = readiness.readable, .writable = writable};
    }
  }
  return filled;
}

// Sets `quiet` when the inner poller had nothing. Otherwise it had something, though perhaps
// nothing that the faults let through yet.
size_t FaultyPoller::wait_inner(std::span<PollEvent> events, TimeNs timeout_ns, bool& quiet) {
  std::array<PollEvent, kBatch> inner_events;
  const size_t capacity = std::min(events.size(), kBatch);
  const size_t count = inner_.wait(std::span(inner_events).first(capacity), timeout_ns);
  quiet = count == 0;
  size_t filled = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto found = entries_.find(static_cast<int>(inner_events[i].token));
    if (found == entries_.end()) continue;
    const Entry& entry = found->second;
    if (entry.pollable != nullptr && !entry.pollable->pass_on_inner_events()) continue;
    events[filled++] = {.token = entry.token,
                        .readable = inner_events[i].readable,
                        .writable = inner_events[i].writable};
  }
  return filled;
}

void FaultyPoller::wake() {
  woken_.store(true, std::memory_order_release);
  inner_.wake();
}

size_t FaultyPoller::wait(std::span<PollEvent> events, TimeNs timeout_ns) {
  TimeNs now = clock_.now();
  const TimeNs deadline = timeout_ns >= kNever - now ? kNever : now + timeout_ns;
  for (;;) {
    TimeNs look_again_at = kNever;
    const size_t filled = look_at_all(events, now, look_again_at);
    const TimeNs until = filled > 0 ? now : std::min(deadline, look_again_at);
    bool quiet = true;
    size_t passed = 0;
    if (filled < events.size()) {
      const TimeNs wait_ns = until == kNever ? kNever : std::max<TimeNs>(until - now, 0);
      passed = wait_inner(events.subspan(filled), wait_ns, quiet);
    }
    if (filled + passed > 0) return filled + passed;
    now = clock_.now();
    if (timeout_ns > 0 && woken_.exchange(false, std::memory_order_acq_rel)) return 0;
    // Quiet before its time: the inner poller has its own reasons, such as a signal.
    if (now >= deadline || (quiet && now < until)) return 0;
  }
}

}  // namespace r2ccl
