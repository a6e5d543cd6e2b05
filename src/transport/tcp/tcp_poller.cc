#include "transport/tcp/tcp_poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace r2ccl {
namespace {

constexpr uint64_t kWakeToken = UINT64_MAX;
constexpr size_t kBatch = 64;  // the next wait() reports further events, in turn

epoll_event interest(uint64_t token, bool want_write) {
  epoll_event event{};
  event.events = EPOLLIN | (want_write ? EPOLLOUT : 0U);
  event.data.u64 = token;
  return event;
}

// Calls by number and not by glibc's wrapper, which is younger than the supported systems.
int epoll_pwait2_ns(int epoll, epoll_event* events, int capacity, TimeNs timeout_ns) {
#ifdef SYS_epoll_pwait2
  // This is struct __kernel_timespec, which equals timespec on 64-bit machines.
  const timespec timeout{static_cast<time_t>(timeout_ns / kSecond),
                         static_cast<long>(timeout_ns % kSecond)};
  return static_cast<int>(syscall(SYS_epoll_pwait2, epoll, events, capacity,
                                  timeout_ns == kNever ? nullptr : &timeout, nullptr, 0));
#else
  (void)epoll, (void)events, (void)capacity, (void)timeout_ns;
  errno = ENOSYS;
  return -1;
#endif
}

int epoll_wait_ms(int epoll, epoll_event* events, int capacity, TimeNs timeout_ns) {
  int timeout_ms = -1;
  if (timeout_ns != kNever) {
    // Rounded up: an early timer would make the caller poll in a tight loop.
    const TimeNs ms = timeout_ns / kMillisecond + (timeout_ns % kMillisecond != 0 ? 1 : 0);
    timeout_ms = static_cast<int>(std::min<TimeNs>(ms, INT_MAX));
  }
  return epoll_wait(epoll, events, capacity, timeout_ms);
}

}  // namespace

Result<std::unique_ptr<TcpPoller>> TcpPoller::open() {
  GuardedFd epoll = GuardedFd::from([] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!epoll.valid()) return system_error("epoll_create1", errno);
  GuardedFd wake_event = GuardedFd::from([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!wake_event.valid()) return system_error("eventfd", errno);
  std::unique_ptr<TcpPoller> poller(new TcpPoller(std::move(epoll), std::move(wake_event)));
  epoll_event event = interest(kWakeToken, false);
  if (epoll_ctl(poller->epoll_.get(), EPOLL_CTL_ADD, poller->wake_event_.get(), &event) != 0) {
    return system_error("epoll_ctl", errno);
  }
  return poller;
}

TcpPoller::TcpPoller(GuardedFd epoll, GuardedFd wake_event)
    : epoll_(std::move(epoll)), wake_event_(std::move(wake_event)) {}

Status TcpPoller::add(int poll_id, uint64_t token, bool want_write) {
  R2CCL_CHECK(token != kWakeToken);
  epoll_event event = interest(token, want_write);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, poll_id, &event) != 0) {
    return system_error("epoll_ctl add", errno);
  }
  return {};
}

void TcpPoller::modify(int poll_id, uint64_t token, bool want_write) {
  R2CCL_CHECK(token != kWakeToken);
  epoll_event event = interest(token, want_write);
  const bool done = epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, poll_id, &event) == 0;
  R2CCL_CHECK(done || !epoll_.valid());  // invalid in a forked child
}

void TcpPoller::remove(int poll_id) {
  const bool done = epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, poll_id, nullptr) == 0;
  R2CCL_CHECK(done || !epoll_.valid());
}

size_t TcpPoller::wait(std::span<PollEvent> events, TimeNs timeout_ns) {
  std::array<epoll_event, kBatch> ready;
  const int capacity = static_cast<int>(std::min(events.size(), kBatch));
  timeout_ns = std::max<TimeNs>(timeout_ns, 0);
  int count = -1;
  if (has_pwait2_) {
    count = epoll_pwait2_ns(epoll_.get(), ready.data(), capacity, timeout_ns);
    // Older seccomp filters answer EPERM for calls that they do not know.
    if (count < 0 && (errno == ENOSYS || errno == EPERM)) has_pwait2_ = false;
  }
  if (!has_pwait2_) count = epoll_wait_ms(epoll_.get(), ready.data(), capacity, timeout_ns);

  size_t filled = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeToken) {
      eventfd_t ignored;
      // A wait without a timeout has not waited: the next one is to end early.
      if (timeout_ns > 0) eventfd_read(wake_event_.get(), &ignored);
      continue;
    }
    // read() reports error and hang-up. The kernel sets EPOLLOUT beside them when asked.
    events[filled++] = {.token = event.data.u64,
                        .readable = (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0,
                        .writable = (event.events & EPOLLOUT) != 0};
  }
  return filled;
}

// Ends a wait. The counter saturates long after it has served its purpose, so the result does not
// matter.
void TcpPoller::wake() {
  eventfd_write(wake_event_.get(), 1);
}

}  // namespace r2ccl
