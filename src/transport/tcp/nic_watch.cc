#include "transport/tcp/nic_watch.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/signals_blocked.h"

namespace r2ccl {
namespace {

// After a read that failed, for want of descriptors or memory.
constexpr std::chrono::milliseconds kPause{250};

bool add(const GuardedFd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<NicWatch>> NicWatch::open(Read read) {
  Result<NicEvents> events = NicEvents::open();
  if (!events.ok()) return events.status();
  GuardedFd read_ended = GuardedFd::from([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  GuardedFd both = GuardedFd::from([] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!read_ended.valid() || !both.valid() || !add(both, events.value().fd()) ||
      !add(both, read_ended.get())) {
    return system_error("watch of the NICs", errno);
  }
  return std::unique_ptr<NicWatch>(new NicWatch(std::move(read), std::move(events).value(),
                                                std::move(read_ended), std::move(both)));
}

NicWatch::NicWatch(Read read, NicEvents events, GuardedFd read_ended, GuardedFd both)
    : read_(std::move(read)),
      events_(std::move(events)),
      read_ended_(std::move(read_ended)),
      both_(std::move(both)) {}

NicWatch::~NicWatch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    asked_or_stopped_.notify_one();
  }
  thread_.join();
}

Result<std::vector<Nic>> NicWatch::nics() {
  std::unique_lock lock(mutex_);
  if (!latest_) {
    lock.unlock();
    auto read = read_();
    if (!read.ok()) return read;
    lock.lock();
    publish(std::move(read).value());
  } else if (given_) {
    ask();
  }
  given_ = true;
  return *latest_;
}

// A notice has the state of a link but not all of it, and notices may be lost: a read follows.
bool NicWatch::drain() {
  const std::lock_guard lock(mutex_);
  std::vector<Nic> now = latest_.value_or(std::vector<Nic>());
  if (events_.drain(now)) ask();
  eventfd_t count = 0;
  bool is_new = eventfd_read(read_ended_.get(), &count) == 0;
  if (latest_ && *latest_ != now) {
    is_new = true;
    latest_ = std::move(now);
  }
  if (is_new) given_ = false;
  return is_new;
}

// Without a thread, for want of memory or by a limit, the next ask tries again.
void NicWatch::ask() {
  asked_ = true;
  asked_or_stopped_.notify_one();
  if (thread_.joinable()) return;
  try {
    const SignalsBlocked blocked;  // no signal of the application is ever delivered to the thread
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "r2ccl-nics");
  } catch (const std::exception& error) {
    R2CCL_LOG(warn, "no thread to read the state of the NICs: %s", error.what());
  }
}

void NicWatch::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_or_stopped_.wait(lock, [this] { return asked_ || stop_; });
    if (stop_) return;
    asked_ = false;
    lock.unlock();
    const bool has_read = read_again();
    lock.lock();
    if (has_read) continue;
    asked_ = true;
    asked_or_stopped_.wait_for(lock, kPause, [this] { return stop_; });
  }
}

bool NicWatch::read_again() {
  try {
    auto read = read_();
    if (read.ok()) {
      const std::lock_guard lock(mutex_);
      publish(std::move(read).value());
      told_ = false;
      return true;
    }
    if (!std::exchange(told_, true)) {
      R2CCL_LOG(warn, "cannot read the state of the NICs: %s", read.status().message().c_str());
    }
  } catch (const std::bad_alloc&) {  // tried again, as any other failure
  }
  return false;
}

// Notices that came during the read may be newer than its answer. Then another read follows.
void NicWatch::publish(std::vector<Nic> read) {
  if (asked_ && latest_) take_states(*latest_, read);
  const bool is_new = latest_ && *latest_ != read;
  latest_ = std::move(read);
  if (!is_new) return;
  given_ = false;
  eventfd_write(read_ended_.get(), 1);
}

}  // namespace r2ccl
