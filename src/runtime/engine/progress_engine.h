// One rank's engine: puts its parts together, which are the NICs of this host, the links to the
// other ranks and its relays, and drives them. Runs on one thread (or one simulated actor).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "protocol/wire/handshake.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/connection/reactor.h"
#include "runtime/engine/last_word.h"
#include "runtime/engine/process_engine.h"
#include "runtime/engine/unreached_hosts.h"
#include "runtime/link/link.h"
#include "runtime/nics/local_nics.h"
#include "runtime/peers/job_map.h"
#include "runtime/peers/pause_meter.h"
#include "runtime/peers/peer_table.h"
#include "runtime/relay/relays.h"
#include "transport/transport.h"

namespace r2ccl {

struct EngineOptions {
  LinkSettings link;
  ListenOptions listen;
  // Returns fresh unpredictable bytes. In a simulation they come from its seed.
  std::function<std::array<std::byte, kNonceBytes>()> nonce;
};

// Receives the events of the job. Calls come from inside progress().
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void on_path_event(const PathEvent& event) = 0;
  virtual void on_notice(Rank peer, std::span<const std::byte> bytes) = 0;
  // The peer's goodbye has arrived. Messages before it may not have been delivered yet.
  virtual void on_goodbye(Rank peer) = 0;
  virtual void on_peer_end(Rank peer, PeerEnd end, const std::string& why) = 0;
  // Memory of the observer's caller cannot be touched: the call that gave it must fail.
  virtual void on_bad_memory(const BadMemory& bad) = 0;
  virtual void on_contradiction(Rank peer, const std::string& why) = 0;
  // As of LinkHost.
  virtual bool is_closed(ContextId context, Rank peer) const = 0;
  virtual void on_new_context(ContextId, Rank) {}
};

class ProgressEngine final : private LinkHost {
 public:
  // `owner` is the member of `shared` that this engine belongs to. Both must outlive this.
  ProgressEngine(ProcessEngine& shared, HandlerOwner& owner, EngineOptions options);
  ~ProgressEngine() override;
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Finds the NICs and listens on each. Fails when no NIC is usable.
  Status open();
  // Fills in the engine's NICs and listeners.
  void describe(RankInfo& info) const { nics_.describe(info); }
  // Builds the links to all others; they connect in progress(). `observer` must outlive the engine.
  // Before this call the engine accepts no connection: the peers wait. A lone rank has a run
  // without a key, and refuses all connections.
  Status start(Rank self, MetJob met, EngineObserver& observer);

  // Returns true when every link has a usable path.
  bool ready() const;
  // Returns the ranks without a usable path yet, for messages.
  std::vector<Rank> unreached() const;
  // Returns null for this rank.
  Link* link(Rank peer) { return peers_.find(peer); }
  const Link* link(Rank peer) const { return peers_.find(peer); }
  size_t rank_count() const { return peers_.ranks(); }
  const JobMap& job() const { return job_; }
  const RankInfo& own_info() const { return job_.own_info(); }
  Rank self() const { return job_.self(); }
  // Returns the time when the last pass began: later bytes have not been read.
  TimeNs polled_at() const { return shared_.polled_at(); }
  // Returns the time when the last pass of the links ended.
  TimeNs passed_at() const { return pauses_.ended_at(); }
  const LocalNics& nics() const { return nics_; }

  // For the other parts that run in this engine's thread.
  Reactor& reactor() override { return reactor_; }
  Transport& transport() override { return shared_.transport(); }
  const RunIdentity& run() const override { return run_; }

  // Runs one pass: does all work that is due, after its events.
  void progress();
  // Returns the time when the next pass is due if nothing happens: absolute.
  TimeNs next_timeout();
  // Returns whether chunks wait for a path, or a path for its connection.
  bool has_unsent() const { return !halted() && peers_.has_unsent(); }
  // Returns whether a link has more to deliver. Then the next pass comes at once.
  bool has_more() const { return peers_.has_more(); }

  // The state or the address of some NIC may have changed.
  void on_nics_changed() { nics_.on_changed(); }

  // Returns the secret of a job of ranks of this run, for derive_child_secret's `child_id`.
  LockedBytes child_secret(std::span<const std::byte, kJobIdBytes> child_id) const;

  // Takes a NIC of this rank out of service, or back, and tells every peer.
  void set_drained(NicId nic, bool drained);
  // Returns the tally of this rank's paths to and from the NIC called `nic` at the host of rank
  // `host`.
  DrainTally tally_drain(Rank host, const std::string& nic) const;
  // Returns that NIC if it is this rank's own.
  std::optional<NicId> own_nic(Rank host, const std::string& nic) const;

  // Returns the connections that this rank relays: they end with it.
  const RelayPipes& relays() const { return relays_.pipes(); }

  // --- the end without memory ---
  // Reserves memory for the end: `notice` is what the peers are to hear then. Legal from start()
  // on.
  void reserve_end(std::vector<std::byte> notice) { last_word_.reserve(std::move(notice)); }
  // Ends all work of the engine for ever, without memory: the links may be half-way through a
  // change. Only progress(), next_timeout() and reports are legal after that. Closes the listeners,
  // so a peer that does not get the notice finds this rank gone.
  void halt() noexcept;
  bool halted() const { return last_word_.begun(); }
  // Returns true when the notice is on its way to all peers, or its time is over.
  bool end_told() const { return last_word_.told(); }

  // CHECKs the invariants of all links, and the ones between links and NICs. The simulator, where a
  // process has one rank, calls it after passes of this rank.
  void check_invariants() const;

 private:
  // LinkHost
  const Clock& clock() const override { return shared_.clock(); }
  std::array<std::byte, kNonceBytes> nonce() override { return options_.nonce(); }
  std::span<std::byte> scratch() override { return shared_.scratch(); }
  std::span<std::byte> read_buffer() override { return shared_.read_buffer(); }
  std::vector<std::byte>& spare_frame() override { return shared_.spare_frame(); }
  NicQueue& queue(NicId nic) override { return nics_.queue(nic); }
  BusyLinks& busy_links() override { return peers_.busy_links(); }
  DialGate& dial_gate(NicId nic, bool shm) override { return nics_.dial_gate(nic, shm); }
  bool is_own(const Address& address) const override { return nics_.is_own(address); }
  std::vector<std::byte> address_notice(NicId nic) const override;
  std::optional<RelayRoute> relay_route(Rank peer, size_t turn) const override {
    return relays_.route(peer, turn);
  }
  void doubt_nics(TimeNs interval) override { nics_.doubt(interval); }
  void on_silent(Rank peer) override;
  void on_unreached(Rank peer, bool own, const std::string& why) override {
    unreached_.on_unreached(peer, own, why, clock().now());
  }
  void on_reached(Rank peer) override { unreached_.on_reached(peer, clock().now()); }
  bool is_closed(ContextId context, Rank peer) const override {
    return observer_->is_closed(context, peer);
  }
  void on_new_context(ContextId context, Rank peer) override {
    observer_->on_new_context(context, peer);
  }
  void wake(Rank peer) override { peers_.wake(peer); }
  void on_goodbye(Rank peer) override { observer_->on_goodbye(peer); }
  void on_path_event(const PathEvent& event) override;
  void on_notice(Rank peer, std::span<const std::byte> bytes) override;
  void on_peer_end(Rank peer, PeerEnd end, const std::string& why) override {
    observer_->on_peer_end(peer, end, why);
  }
  void on_bad_memory(const BadMemory& bad) override { observer_->on_bad_memory(bad); }
  void on_contradiction(Rank peer, const std::string& why) override {
    observer_->on_contradiction(peer, why);
  }

  std::unique_ptr<Acceptor> make_listeners();
  Result<AcceptDecision> on_hello(const ConnectionIdentity& identity, Incarnation theirs);
  Status add_link(const RankInfo& peer, const LinkSettings& settings);
  void reserve_places();
  void apply(const LocalNics::Changes& changes);
  void advertise(NicId nic);
  void ping_witnesses(const PathEvent& event);
  void on_call(Rank peer, std::span<const std::byte> bytes);
  void on_drained(Rank peer, std::span<const std::byte> body);
  void on_address(Rank peer, std::span<const std::byte> body);
  void on_doubt(std::span<const std::byte> body);
  void check_nic(NicId nic, const NicQueue& queue) const;

  ProcessEngine& shared_;
  const EngineOptions options_;
  Reactor reactor_;
  RunIdentity run_;
  JobMap job_;
  EngineObserver* observer_ = nullptr;
  LocalNics nics_;
  PeerTable peers_;
  Relays relays_;
  UnreachedHosts unreached_;
  PauseMeter pauses_;
  LastWord last_word_;
  std::vector<TimeNs> next_ping_;  // by NIC
  size_t ping_cursor_ = 0;
};

}  // namespace r2ccl
