#include "runtime/bootstrap/rendezvous_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>

#include "base/signals_blocked.h"
#include "runtime/config/no_thread.h"

namespace r2ccl {
namespace {

constexpr TimeNs kNoMemoryPause = 10 * kMillisecond;

}  // namespace

Result<std::unique_ptr<RendezvousThread>> RendezvousThread::start(
    std::unique_ptr<Transport> transport, const std::vector<Endpoint>& local,
    RendezvousServer::Options options, const Clock& clock) {
  std::vector<std::unique_ptr<Listener>> listeners;
  for (const Endpoint& endpoint : local) {
    auto listener = transport->listen(endpoint, "");
    if (!listener.ok()) {
      return listener.status().with_context("cannot open the rendezvous at " + to_string(endpoint));
    }
    listeners.push_back(std::move(listener).value());
  }
  std::unique_ptr<RendezvousThread> server(
      new RendezvousThread(std::move(transport), std::move(listeners), std::move(options), clock));
  try {
    const SignalsBlocked blocked;
    std::thread([raw = server.get()] { raw->run(); }).detach();
    server->started_ = true;
  } catch (const std::system_error& error) {
    return no_thread("cannot start the rendezvous thread", error);
  }
  return server;
}

RendezvousThread::RendezvousThread(std::unique_ptr<Transport> transport,
                                   std::vector<std::unique_ptr<Listener>> listeners,
                                   RendezvousServer::Options options, const Clock& clock)
    : clock_(clock),
      job_id_(options.job.id),
      work_(std::make_unique<Work>(std::move(transport), std::move(listeners), std::move(options))),
      endpoints_(work_->server.endpoints()) {}

RendezvousThread::Work::Work(std::unique_ptr<Transport> given,
                             std::vector<std::unique_ptr<Listener>> listeners,
                             RendezvousServer::Options options)
    : transport(std::move(given)),
      reactor(transport->poller()),
      server(reactor, std::move(listeners), std::move(options)) {}

RendezvousThread::~RendezvousThread() {
  if (!started_) return;
  stop_.store(true, std::memory_order_release);
  std::unique_lock lock(mutex_);
  if (work_ != nullptr) work_->transport->poller().wake();
  end_.wait(lock, [this] { return finished_; });
}

void RendezvousThread::run() {
  pthread_setname_np(pthread_self(), "r2ccl-meet");
  RendezvousServer& server = work_->server;
  while (!stop_.load(std::memory_order_acquire)) {
    try {
      server.progress(clock_.now());
      if (server.finished()) break;
      set_told_all(server.told_all());
      const TimeNs at = server.next_timeout();
      work_->reactor.poll(at == kNever ? kNever : std::max<TimeNs>(0, at - clock_.now()));
    } catch (const std::exception&) {
      // The ranks ask again, and memory may be back by then.
      std::unique_lock lock(mutex_);
      end_.wait_for(lock, std::chrono::nanoseconds(kNoMemoryPause));
    }
  }
  // The thread's last access to this object: the destructor waits for it.
  std::lock_guard lock(mutex_);
  work_.reset();
  finished_ = true;
  end_.notify_all();
}

void RendezvousThread::set_told_all(bool told) {
  std::lock_guard lock(mutex_);
  if (told && !told_all_) end_.notify_all();
  told_all_ = told;
}

bool RendezvousThread::finished() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

bool RendezvousThread::wait_answered(TimeNs timeout) const {
  std::unique_lock lock(mutex_);
  return end_.wait_for(lock, std::chrono::nanoseconds(timeout),
                       [this] { return told_all_ || finished_; });
}

std::vector<Endpoint> rendezvous_addresses(std::span<const Nic> nics, size_t count_max) {
  std::vector<Endpoint> out;
  for (const Nic& nic : nics) {
    if (!nic.usable || out.size() == count_max) continue;
    const auto address = std::ranges::find_if_not(nic.addresses, is_link_local);
    if (address != nic.addresses.end()) out.push_back({*address, 0});
  }
  if (out.empty()) {
    Endpoint loopback;
    loopback.address.family = AddressFamily::ipv4;
    loopback.address.bytes = {127, 0, 0, 1};
    loopback.address.prefix_bits = 8;
    out.push_back(loopback);
  }
  return out;
}

}  // namespace r2ccl
