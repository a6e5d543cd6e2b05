// One rank's engine: its NICs and listeners, a link to every other rank, and the loop that drives
// them. Runs on one thread (or one simulated actor).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/wire/handshake.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/connection/reactor.h"
#include "runtime/engine/job_map.h"
#include "runtime/engine/link_schedule.h"
#include "runtime/engine/process_engine.h"
#include "runtime/engine/relay_pipes.h"
#include "runtime/link/link.h"
#include "runtime/nics/local_nics.h"
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
  Link* link(Rank peer) { return links_[static_cast<size_t>(peer.value())].get(); }
  const Link* link(Rank peer) const { return links_[static_cast<size_t>(peer.value())].get(); }
  size_t rank_count() const { return links_.size(); }
  const JobMap& job() const { return job_; }
  const RankInfo& own_info() const { return job_.info(self_); }
  Rank self() const { return self_; }
  // Returns the time when the last pass began: later bytes have not been read.
  TimeNs polled_at() const { return shared_.polled_at(); }
  // Returns the time when the last pass of the links ended.
  TimeNs passed_at() const { return last_pass_end_; }
  const LocalNics& nics() const { return nics_; }

  // For the other parts that run in this engine's thread.
  Reactor& reactor() override { return reactor_; }
  Transport& transport() override { return shared_.transport(); }
  const RunIdentity& run() const override { return run_; }

  // Runs one pass: does all work that is due, after the events of this turn.
  void progress();
  // Returns the time when the next pass is due if nothing happens: absolute.
  TimeNs next_timeout();
  // Returns whether chunks wait for a path, or a path for its connection.
  bool has_unsent() const { return !halted() && (schedule_.any_marked() || unsent_links_ > 0); }
  // Returns whether a link has more to deliver. Then the next turn comes at once.
  bool has_more() const { return schedule_.any_marked(); }

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
  const RelayPipes& relays() const { return relays_; }

  // --- the end without memory ---
  // Reserves memory for the end: `notice` is what the peers are to hear then. Legal from start()
  // on.
  void reserve_end(std::vector<std::byte> notice);
  // Ends all work of the engine for ever, without memory: the links may be half-way through a
  // change. Only progress(), next_timeout() and reports are legal after that. Closes the listeners,
  // so a peer that does not get the notice finds this rank gone.
  void halt() noexcept;
  bool halted() const { return halted_at_ != kNever; }
  // Returns true when the notice is on its way to all peers, or its time is over.
  bool end_told() const { return end_told_; }

  // CHECKs the invariants of all links, and the ones between links and NICs. The simulator, where a
  // process has one rank, calls it after turns of this rank.
  void check_invariants() const;

 private:
  // The last turn of a link.
  struct LinkTurn {
    TimeNs at = 0;
    TimeNs pauses = 0;  // that it has compensated for
    bool unsent = false;
  };

  // LinkHost
  const Clock& clock() const override { return shared_.clock(); }
  std::array<std::byte, kNonceBytes> nonce() override { return options_.nonce(); }
  std::span<std::byte> scratch() override { return shared_.scratch(); }
  std::span<std::byte> read_buffer() override { return shared_.read_buffer(); }
  std::vector<std::byte>& spare_frame() override { return shared_.spare_frame(); }
  NicQueue& queue(NicId nic) override { return nics_.queue(nic); }
  BusyLinks& busy_links() override { return busy_links_; }
  DialGate& dial_gate(NicId nic, bool shm) override { return nics_.dial_gate(nic, shm); }
  bool is_own(const Address& address) const override { return nics_.is_own(address); }
  std::vector<std::byte> address_notice(NicId nic) const override;
  std::optional<RelayRoute> relay_route(Rank peer, size_t turn) const override;
  void doubt_nics(TimeNs interval) override { nics_.doubt(interval); }
  void on_silent(Rank peer) override;
  void on_unreached(Rank peer, bool own, const std::string& why) override;
  void on_reached(Rank peer) override;
  void wake(Rank peer) override { schedule_.mark(static_cast<size_t>(peer.value())); }
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

  void progress_links(TimeNs now);
  void tell_end(TimeNs now);
  bool tell_end_to(Link& link);
  void hang_up();
  void ping_witnesses(const PathEvent& event);
  void reserve_places();
  static std::string describe_pair(const RankInfo& a, const RankInfo& b);
  void apply(const LocalNics::Changes& changes);
  void on_call(Rank peer, std::span<const std::byte> bytes);
  void on_drained(Rank peer, std::span<const std::byte> body);
  void on_address(Rank peer, std::span<const std::byte> body);
  void on_doubt(std::span<const std::byte> body);
  void advertise(NicId nic);
  TimeNs look();
  void check_schedule() const;
  void check_nic(NicId nic, const NicQueue& queue) const;
  std::unique_ptr<Acceptor> make_acceptor();
  Result<AcceptDecision> on_hello(const ConnectionIdentity& identity, Incarnation theirs);

  // progress_engine_relay.cc
  const Path* ordinary_path(Rank peer, size_t turn) const;
  const Path* relayed_path(const ConnectionIdentity& identity) const;
  Result<AcceptDecision> on_relay_hello(const ConnectionIdentity& identity) const;
  void on_relay(EstablishedConnection from);

  ProcessEngine& shared_;
  const EngineOptions options_;
  Reactor reactor_;
  RunIdentity run_;
  Rank self_;
  JobMap job_;
  EngineObserver* observer_ = nullptr;
  LocalNics nics_;
  std::vector<TimeNs> next_ping_;  // parallel to nics_
  size_t ping_cursor_ = 0;
  LinkSchedule schedule_;        // of links_, which it outlives
  std::vector<LinkTurn> turns_;  // parallel to links_
  BusyLinks busy_links_;         // of links_, which it outlives
  std::vector<std::unique_ptr<Link>> links_;
  RelayPipes relays_;
  size_t unsent_links_ = 0;  // links that had unsent chunks after their last turn
  // By host: the ranks that this one does not reach because of it; of this host, those that it does
  // not reach because of its own NICs.
  struct Unreached {
    std::set<Rank> ranks;
    std::string name;
    TimeNs since = 0;
  };
  std::map<HostId, Unreached> unreached_;
  ControlFrame last_frame_;             // to the peers, once this has halted
  std::vector<std::byte> last_memory_;  // for its bytes
  TimeNs halted_at_ = kNever;
  bool end_told_ = false;
  TimeNs last_pass_end_ = 0;
  TimeNs looked_at_ = 0;      // the last clock reading of the last pass
  TimeNs pauses_ = 0;         // the sum of all pauses of this rank
  TimeNs paused_ = 0;         // pauses in that pass that are not compensated yet
  TimeNs promised_ = kNever;  // the last result of next_timeout()
};

}  // namespace r2ccl
