#include "transport/shm/shm_poller.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

// The poller below knows a connection's socket by this and the socket's number.
constexpr uint64_t kOwn = uint64_t{UINT32_MAX} << 32;

}  // namespace

ShmPoller::ShmPoller(Poller& below, const Clock& clock, std::shared_ptr<const ShmConnections> all)
    : below_(below), clock_(clock), all_(std::move(all)) {}

ShmPoller::Watch* ShmPoller::find(int poll_id) {
  const auto found = std::ranges::find_if(
      watches_, [&](const Watch& watch) { return watch.connection->poll_id() == poll_id; });
  return found == watches_.end() ? nullptr : &*found;
}

Status ShmPoller::add(int poll_id, uint64_t token, bool want_write) {
  R2CCL_CHECK((token & kOwn) != kOwn);
  const auto found = all_->live.find(poll_id);
  if (found == all_->live.end()) return below_.add(poll_id, token, want_write);
  watches_.push_back({found->second, token, want_write});
  Status added = below_.add(poll_id, kOwn | static_cast<uint32_t>(poll_id), false);
  if (!added.ok()) watches_.pop_back();
  return added;
}

void ShmPoller::modify(int poll_id, uint64_t token, bool want_write) {
  R2CCL_CHECK((token & kOwn) != kOwn);
  Watch* const watch = find(poll_id);
  if (watch == nullptr) return below_.modify(poll_id, token, want_write);
  watch->token = token;
  watch->want_write = want_write;
}

void ShmPoller::remove(int poll_id) {
  below_.remove(poll_id);
  if (Watch* const watch = find(poll_id); watch != nullptr) {
    *watch = watches_.back();
    watches_.pop_back();
    next_ = 0;
  }
}

void ShmPoller::set_waiting(bool on) {
  for (const Watch& watch : watches_) watch.connection->set_waiting(on, watch.want_write);
}

size_t ShmPoller::report_ready(std::span<PollEvent> events) {
  // All connections of one transport are older than a fork, or none.
  if (watches_.empty() || watches_.front().connection->in_forked_child()) return 0;
  size_t filled = 0;
  size_t place = next_;
  for (size_t i = 0; i < watches_.size() && filled < events.size(); ++i) {
    const Watch& watch = watches_[place];
    place = place + 1 == watches_.size() ? 0 : place + 1;
    const bool readable = watch.connection->readable();
    const bool writable = watch.want_write && watch.connection->writable();
    if (!readable && !writable) continue;
    events[filled++] = {.token = watch.token, .readable = readable, .writable = writable};
  }
  next_ = place;
  return filled;
}

// Returns the number of events that are not about the connections' sockets.
size_t ShmPoller::ask_kernel(std::span<PollEvent> events, TimeNs timeout_ns) {
  const size_t count = below_.wait(events, timeout_ns);
  kernel_asked_ = clock_.now();
  size_t kept = 0;
  for (const PollEvent& event : events.first(count)) {
    if ((event.token & kOwn) != kOwn) {
      events[kept++] = event;
      continue;
    }
    const auto found = all_->live.find(static_cast<int>(event.token & ~kOwn));
    if (found != all_->live.end()) found->second->on_socket_ready();
  }
  if (kept > 0) kernel_busy_until_ = kernel_asked_ + kKernelBusy;
  return kept;
}

bool ShmPoller::kernel_due() const {
  const TimeNs now = clock_.now();
  return now < kernel_busy_until_ || now - kernel_asked_ >= kKernelLook;
}

size_t ShmPoller::wait(std::span<PollEvent> events, TimeNs timeout_ns) {
  R2CCL_CHECK(!events.empty());
  if (watches_.empty()) return ask_kernel(events, timeout_ns);
  size_t filled = report_ready(events);
  if (filled == 0 && timeout_ns > 0) return wait_in_kernel(events, timeout_ns);
  if (!kernel_due()) return filled;
  if (filled < events.size()) return filled + ask_kernel(events.subspan(filled), 0);
  // Rings that are always ready must leave room for sockets.
  filled = ask_kernel(events.first((events.size() + 1) / 2), 0);
  return filled + report_ready(events.subspan(filled));
}

// As in Dekker's algorithm: says that it waits, and then looks once more.
size_t ShmPoller::wait_in_kernel(std::span<PollEvent> events, TimeNs timeout_ns) {
  set_waiting(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  size_t filled = report_ready(events);
  if (filled == 0) {
    filled = ask_kernel(events, timeout_ns);
    filled += report_ready(events.subspan(filled));
  }
  set_waiting(false);
  return filled;
}

}  // namespace r2ccl
