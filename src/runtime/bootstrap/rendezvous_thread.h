// A rendezvous server with a transport and a thread of its own. r2cclGetUniqueId can therefore
// return before the ranks, and its caller among them, connect.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/bootstrap/rendezvous_server.h"

namespace r2ccl {

class RendezvousThread {
 public:
  // Listens on each of `local` (port 0: any) before it returns, so the caller can pass endpoints()
  // on. Takes the transport over. Requires that `clock` outlives it.
  static Result<std::unique_ptr<RendezvousThread>> start(std::unique_ptr<Transport> transport,
                                                         const std::vector<Endpoint>& local,
                                                         RendezvousServer::Options options,
                                                         const Clock& clock);
  // Ends the service, even if some ranks have not been served.
  ~RendezvousThread();
  RendezvousThread(const RendezvousThread&) = delete;
  RendezvousThread& operator=(const RendezvousThread&) = delete;

  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  std::span<const std::byte, kJobIdBytes> job_id() const { return job_id_; }
  // True when all ranks have the table, or its time is over.
  bool finished() const;
  // Waits for finished(), or until all waiting ranks know that the job cannot start. Returns false
  // when `timeout` passes first.
  bool wait_answered(TimeNs timeout) const;

 private:
  RendezvousThread(std::unique_ptr<Transport> transport,
                   std::vector<std::unique_ptr<Listener>> listeners,
                   RendezvousServer::Options options, const Clock& clock);
  void run();
  void set_told_all(bool told);

  // The thread's end gives these descriptors back, for the object may live on.
  struct Work {
    Work(std::unique_ptr<Transport> transport, std::vector<std::unique_ptr<Listener>> listeners,
         RendezvousServer::Options options);
    std::unique_ptr<Transport> transport;
    Reactor reactor;
    RendezvousServer server;
  };

  const Clock& clock_;
  const std::array<std::byte, kJobIdBytes> job_id_;
  std::unique_ptr<Work> work_;  // used only by the thread once it runs; null after its end
  const std::vector<Endpoint> endpoints_;
  std::atomic<bool> stop_{false};  // set by the destructor, read by the thread after a wake
  mutable std::mutex mutex_;       // guards told_all_, finished_ and the end of work_
  mutable std::condition_variable end_;
  bool told_all_ = false;
  bool finished_ = false;
  // The thread is detached: an id belongs to the process, which would never join the thread.
  bool started_ = false;
};

// Returns the endpoints where a rendezvous should listen so that other hosts can reach it: one
// address of each of up to `count_max` usable NICs, or the loopback address when there is none.
// Global addresses come before link-local ones, which mean nothing on another host.
std::vector<Endpoint> rendezvous_addresses(std::span<const Nic> nics, size_t count_max);

}  // namespace r2ccl
