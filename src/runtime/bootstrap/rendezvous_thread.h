// A rendezvous server with a transport and a thread of its own, so that r2cclGetUniqueId can return
// while the ranks, and among them its caller, are still on their way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/bootstrap/rendezvous_server.h"

namespace r2ccl {

class RendezvousThread {
 public:
  // Listens on each of `local` (port 0: any) before it returns, so that endpoints() can be told to
  // others. Takes the transport for itself; `clock` outlives it.
  static Result<std::unique_ptr<RendezvousThread>> start(std::unique_ptr<Transport> transport,
                                                         const std::vector<Endpoint>& local,
                                                         RendezvousServer::Options options,
                                                         const Clock& clock);
  // Ends the service, whether or not all ranks have been served.
  ~RendezvousThread();
  RendezvousThread(const RendezvousThread&) = delete;
  RendezvousThread& operator=(const RendezvousThread&) = delete;

  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // All ranks have the table, or the time for that is over.
  bool finished() const;
  // Until then, or until all ranks that wait here know that the job cannot start. False when
  // `timeout` passed first.
  bool wait_answered(TimeNs timeout) const;

 private:
  RendezvousThread(std::unique_ptr<Transport> transport,
                   std::vector<std::unique_ptr<Listener>> listeners,
                   RendezvousServer::Options options, const Clock& clock);
  void run();
  void set_told_all(bool told);

  std::unique_ptr<Transport> transport_;
  const Clock& clock_;
  Reactor reactor_;
  RendezvousServer server_;  // used by the thread alone once it runs
  const std::vector<Endpoint> endpoints_;
  std::atomic<bool> stop_{false};  // set by the destructor, read by the thread after a wake
  mutable std::mutex mutex_;       // guards told_all_ and finished_
  mutable std::condition_variable end_;
  bool told_all_ = false;
  bool finished_ = false;
  // The thread is detached: the owner of an id's is the process, which would never join it.
  bool started_ = false;
};

// Where a rendezvous should listen so that other hosts can reach it: one address of each of up to
// `count_max` usable NICs, global before link-local (which cannot be told to another host), or the
// loopback address when there is none.
std::vector<Endpoint> rendezvous_addresses(std::span<const Nic> nics, size_t count_max);

}  // namespace r2ccl
