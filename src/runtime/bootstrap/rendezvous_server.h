// Collects the rank info of each rank of a job and sends all of it to all ranks. The server runs in
// the process that made the unique id (or on the host that the environment names), on a port that
// anybody can reach. So an unauthenticated connection costs constant memory, and the number and the
// age of such connections are bounded.
//
// A state machine over a Reactor: call progress() after every Reactor::poll and at next_timeout().
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/wire/handshake.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/connection/handshake_limiter.h"
#include "runtime/connection/reactor.h"
#include "runtime/connection/sealed_stream.h"
#include "transport/transport.h"

namespace r2ccl {

using NonceSource = std::function<std::array<std::byte, kNonceBytes>()>;

class RendezvousServer {
 public:
  struct Options {
    JobIdentity job;
    NonceSource nonce;
    // Without a secret: the longest time that an arrival keeps its slot, however much longer it
    // asks for.
    TimeNs open_patience = kNever;
    // The server ends when no rank has been here for so long, and the job has not met.
    TimeNs idle_bound = kNever;
    std::string note{};  // a likely reason why ranks do not come, for the error; empty: none known
  };
  struct Counters {
    uint64_t refused = 0;  // foreign connections, wrong secrets, impossible ranks
    uint64_t evicted = 0;  // unfinished handshakes: too old, or one too many
    bool operator==(const Counters&) const = default;
  };

  // Requires that `reactor` and the listeners' transport outlive the server.
  RendezvousServer(Reactor& reactor, std::vector<std::unique_ptr<Listener>> listeners,
                   Options options);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  void progress(TimeNs now);
  // Returns the time at which progress() is due even if nothing is ready.
  TimeNs next_timeout() const;
  // True when every rank has acknowledged the table, or its time is over. The server serves nothing
  // any more.
  bool finished() const { return finished_; }
  // True when the job cannot start and every rank that waited here has the reason.
  bool told_all() const;
  const Counters& counters() const { return counters_; }
  size_t connection_count() const { return pending_.size(); }
  size_t handshake_count() const { return limiter_.size(); }
  std::vector<Endpoint> endpoints() const;

 private:
  class PendingConnection;
  struct ListenSocket;
  struct Slot;

  void accept_from(ListenSocket& listen_socket, TimeNs now);
  // Returns true while there are enough greeted peers to serve, all of them young.
  bool is_full(TimeNs now) const;
  void admit(std::unique_ptr<Connection> connection, TimeNs now);
  // Returns true while the connection stays.
  bool serve_in_any_case(PendingConnection& pending, TimeNs now);
  bool serve(PendingConnection& pending, TimeNs now);
  bool shake_hands(PendingConnection& pending, TimeNs now);
  bool talk(PendingConnection& pending, TimeNs now);
  bool on_message(PendingConnection& pending, SealedStream::Message message, TimeNs now);
  // Fails with an error text for the peer when its rank info is refused.
  Status take_slot(PendingConnection& pending, Arrival arrival, TimeNs now);
  Status check_count(Rank rank, const RankInfo& info, int32_t rank_count) const;
  TimeNs patience(uint32_t left_ms) const;
  void release_slot(const PendingConnection& pending, TimeNs now);
  // Returns when the server ends if no rank comes; kNever while one is here, or has been served.
  TimeNs idle_end() const;
  bool all_acknowledged() const;
  // Once all ranks have acknowledged: tells those that have joined.
  void tell_all_joined(TimeNs now);
  void tell_refused(PendingConnection& pending, const Status& why, TimeNs now);
  void hand_out_table(TimeNs now);
  Status missing_ranks(uint32_t timeout_ms) const;
  void evict_surplus();
  void check_times(TimeNs now);
  void give_up(const Status& why, TimeNs now);
  void finish();

  Reactor& reactor_;
  const Options options_;
  std::vector<std::unique_ptr<ListenSocket>> listen_sockets_;
  HandshakeLimiter limiter_;                               // connections without a slot
  std::list<std::unique_ptr<PendingConnection>> pending_;  // oldest first
  std::map<Rank, Slot> slots_;                             // ranks whose info has arrived
  std::map<Rank, std::string> lost_;  // ranks that arrived and left, with their names
  int32_t rank_count_ = 0;            // given by the first arrival; 0: none yet
  const LockedBytes token_;           // random number of this run
  SealedStream::Body table_;          // set once all ranks have arrived
  Status failure_;                    // set once a rank's timeout passed before that
  TimeNs table_deadline_ = kNever;    // the time to stop serving after either
  TimeNs idle_since_ = kNever;        // the last time that a rank left; at first, the beginning
  bool finished_ = false;
  Counters counters_;
  std::string last_refusal_;
};

}  // namespace r2ccl
