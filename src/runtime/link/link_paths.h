// The paths of one link: opens, validates, suspects, fails and reopens them, and knows whether the
// peer still exists. Driving thread only.
//
// Pure parts of protocol/path make the decisions: the failure detector, the peer's liveness, the
// reconnect backoff of each path. This class carries them out on the connections, and reports each
// change to the link.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fifo.h"
#include "protocol/admin/drain.h"
#include "protocol/path/failure_detector.h"
#include "protocol/path/path_scheduler.h"
#include "protocol/path/peer_liveness.h"
#include "runtime/connection/path_dialer.h"
#include "runtime/link/link_host.h"
#include "runtime/link/path.h"

namespace r2ccl {

class LinkPaths final : private FailureDetector::Actions, private PathDialer::Owner {
  struct PathSlot;

 public:
  // A range of Path*. clang 14 cannot compile std::views::transform of g++ 12's library.
  class AllPaths {
   public:
    class Iterator {
     public:
      using value_type = Path*;
      using difference_type = std::ptrdiff_t;
      Iterator() = default;
      explicit Iterator(const PathSlot* slot) : slot_(slot) {}
      Path* operator*() const { return slot_->path.get(); }
      Iterator& operator++() {
        ++slot_;
        return *this;
      }
      Iterator operator++(int) { return Iterator(slot_++); }
      friend bool operator==(const Iterator&, const Iterator&) = default;

     private:
      const PathSlot* slot_ = nullptr;
    };

    AllPaths(const PathSlot* first, const PathSlot* last) : first_(first), last_(last) {}
    Iterator begin() const { return Iterator(first_); }
    Iterator end() const { return Iterator(last_); }
    size_t size() const { return static_cast<size_t>(last_ - first_); }
    Path* operator[](size_t index) const { return first_[index].path.get(); }

   private:
    const PathSlot* first_;
    const PathSlot* last_;
  };
  // The link, which receives each change.
  class Events {
   public:
    virtual ~Events() = default;
    // Sends the link's state with a ping on the path's control stream.
    virtual void send_ping(Path& path, TimeNs now) = 0;
    virtual void send_proof(Path& path, TimeNs now) = 0;
    virtual void on_suspect(Path& path) = 0;
    // Requires that the path is about to fail, and was not suspect before.
    virtual void on_failing(Path& path) = 0;
    // Returns the number of bytes that must be retransmitted.
    virtual uint64_t on_failed(const Fifo<Transmission>& lost) = 0;
    // The state of the paths in control frames has changed.
    virtual void on_state_changed() = 0;
    virtual void on_path_event(const PathEvent& event) = 0;
    // progress() is due.
    virtual void wake() = 0;
    virtual void on_peer_gone(const PeerLiveness::End& end) = 0;
    virtual bool peer_said_goodbye() const = 0;
    virtual bool said_goodbye() const = 0;
    virtual bool peer_ended() const = 0;
  };

  LinkPaths(LinkHost& host, LinkEnd end, const std::vector<PathSpec>& specs,
            const LinkSettings& settings, Path::Owner& owner, Events& events);
  ~LinkPaths() override;

  // Returns the paths in use as Path*, in the order of their specs: the relay path is one of them,
  // the last one, once the link has needed it.
  AllPaths all() const { return first(in_use_); }
  // Returns the same, and the relay path in any case.
  AllPaths with_relay() const { return first(slots_.size()); }
  // Returns all(), without the relay path until that has been connected for the first time.
  AllPaths shown() const { return first(shown_); }
  // Requires a connected relay path that this end has opened. Returns the rank that relays.
  Rank relayed_by() const { return relay_route_.via; }
  Path* find(PathId id) const;
  FailureDetector& detector() { return detector_; }
  const FailureDetector& detector() const { return detector_; }
  PathScheduler& scheduler() { return scheduler_; }
  bool opens() const { return end_.self < end_.peer; }
  // True when some path is up that may carry chunks, with its data connection or without.
  bool ready() const;
  // The link has, or will have, messages: from now on each path that is up needs its data
  // connection. Returns whether that is new.
  bool want_data();
  bool wants_data() const { return wants_data_; }
  const std::string& last_dial_failure() const { return last_dial_failure_; }

  // --- driven by the link ---
  // Fails the paths whose connections broke.
  void act_on_breaks(TimeNs now);
  // Does all other work that is due. `idle_ns`: how long the engine's loop had not run before.
  void progress(TimeNs now, TimeNs idle_ns);
  TimeNs next_timeout(TimeNs now) const;
  // Requires that a control frame has arrived.
  void on_frame(TimeNs now);
  // Closes all connections for ever.
  void close(TimeNs now);

  // --- the end without memory: as of Path, for all paths ---
  void halt() noexcept;
  // Returns true when no control stream is left that has not taken the frame.
  bool send_last(ControlFrame& frame, std::vector<std::byte>& memory);
  void hang_up() noexcept;

  // --- events of the engine; as in Link ---
  Result<AcceptDecision> on_hello(const ConnectionIdentity& identity, Incarnation theirs);
  void adopt(EstablishedConnection connection);
  void on_nic_change(NicId nic, bool usable, DownCause cause);
  void set_remote(NicId remote_nic, const std::vector<Address>& addresses, uint16_t port);
  void set_source(NicId local_nic, const std::vector<Address>& addresses);
  void on_source_lost(std::span<const Address> lost);
  void on_remote_lost(NicId remote_nic, std::span<const Address> lost);
  void doubt();
  void set_drained(NicSet local, NicSet remote);
  NicSet drained_remote() const { return drained_remote_; }
  void tally_drain(NicId local, NicId remote, DrainTally& tally) const;
  bool ping(NicId local_nic);
  bool is_cut_off(TimeNs now) const;
  // A peer that no path reaches is not pinged.
  Answerer answerer(TimeNs now) const {
    return liveness_.all_down() ? Answerer::nobody : detector_.answerer(now);
  }
  bool may_be_dead() const { return liveness_.may_be_dead(); }

  void check_invariants() const;

 private:
  struct PathSlot {
    std::unique_ptr<Path> path;
    // Dials for the lower rank; the higher rank only probes whether the peer is there.
    std::unique_ptr<PathDialer> dialer;
    // This end does not open the path, but its NIC is back, and the peer is not known to know it.
    bool call_due = false;
    bool last_sent = false;  // its control stream has taken the last frame, or is closed
    // The acceptor holds a path's data connection until its control stream joins.
    std::optional<EstablishedConnection> pending_data;
    // In the path's present incarnation.
    TimeNs next_join = 0;         // when its data connection may be dialed next
    uint32_t joined_in_vain = 0;  // attempts
  };

  TimeNs now() const { return host_.clock().now(); }
  AllPaths first(size_t count) const { return {slots_.data(), slots_.data() + count}; }
  bool uses_relay() const { return has_relay_ && in_use_ == slots_.size(); }
  Path& path_of(PathEnd& path) const { return *slots_[path.index].path; }
  std::vector<PathEnd*> path_ends() const;
  void settle(TimeNs now);
  void check_proof(Path& path, TimeNs now);
  void validate(Path& path, TimeNs now);
  TimeNs next_settling(const PathSlot& slot, TimeNs now) const;
  void compensate_idle(TimeNs idle_ns, TimeNs now);
  void resume_paused(TimeNs now);
  void look_at_ends(TimeNs now);
  bool note_data_paths(TimeNs now);
  void dial(TimeNs now);
  void hint(PathSlot& slot);
  void readdress(PathSlot& slot);
  // link_paths_reach.cc
  void lose_address(PathSlot& slot, DownCause cause, DownCause peer_cause, const std::string& why);
  void watch_reach(TimeNs now);
  struct Unreached {
    bool own = false;  // because of a NIC of this host
    std::string why;   // empty: not known
  };
  Unreached why_unreached() const;
  bool may_open(const Path& path, TimeNs now) const;
  bool is_first_dial(const Path& path) const;
  bool leads_here(const PathSpec& spec, const Address& remote) const;
  bool aim(Path& path, TimeNs now);
  bool is_answer_of_peer(const Path& path, const DialRequest& request) const;
  bool admitted(PathSlot& slot, TimeNs now);
  bool may_dial(const PathSlot& slot) const;
  // link_paths_relay.cc
  void seek_relay(TimeNs now);
  std::optional<RelayRoute> choose_relay(Path& path);
  void go_through(const RelayRoute& route, DialRequest& request);
  void on_relay_dialed(Path& path, const DialRequest& request);
  void on_relay_failed(PathSlot& slot, const DialFailure& failure);
  void on_relay_missed(Path& path, const std::string& why);
  TimeNs relay_over_at() const;
  void end_surplus_relay(TimeNs now);
  void open(PathSlot& slot, TimeNs now);
  DialRequest request_to(const Path& path) const;
  bool may_join(const PathSlot& slot) const;
  void join(PathSlot& slot, TimeNs now);
  void adopt_control(Path& path, std::optional<EstablishedConnection> data,
                     EstablishedConnection control);
  void on_joined(Path& path, EstablishedConnection data);
  void on_join_failed(PathSlot& slot, const DialFailure& failure);
  bool serves(const Path& path) const;
  bool attach(Path& path, std::optional<EstablishedConnection> data, EstablishedConnection control,
              TimeNs now);
  TimeNs connect_bound(Path& path, TimeNs now);
  void hint_all(TimeNs now);
  void fail_path(Path& path, DownCause cause, DownCause peer_cause, const std::string& why,
                 TimeNs now);
  PathEvent failure_event(const Path& path, DownCause cause, DownCause peer_cause,
                          const std::string& why, TimeNs now) const;
  Fifo<Transmission> detach(Path& path, DownCause cause, TimeNs now, bool keeps_end = false);
  void forget_outstanding() noexcept;
  void report_change(const Path& path, PathPhase from, TimeNs now, PathEvent event);
  void choose_standby();

  // FailureDetector::Actions
  void send_ping(PathEnd& path, TimeNs now) override;
  void suspect(PathEnd& path, const char* stream, TimeNs late, TimeNs now) override;
  void clear(PathEnd& path, TimeNs now) override;
  void fail(PathEnd& path, DownCause cause, const char* why, TimeNs now) override;
  void probe_kernel(PathEnd& path, TimeNs now) override;
  void reconnect(PathEnd& path, TimeNs interval, TimeNs now) override;
  TimeNs prompt_round_trip(TimeNs now) const override { return scheduler_.prompt_round_trip(now); }
  // PathDialer::Owner
  void on_dialed(PathDialer& dialer, DialedPath dialed) override;
  void on_dial_failed(PathDialer& dialer, const DialFailure& failure) override;
  void on_admitted() override { events_.wake(); }

  LinkHost& host_;
  const LinkEnd end_;
  const LinkSettings& settings_;
  Events& events_;
  std::vector<PathSlot> slots_;
  const bool has_relay_;
  size_t in_use_;  // slots of all()
  size_t shown_;   // slots of shown(): in_use_ or fewer
  FailureDetector detector_;
  PathScheduler scheduler_;
  PeerLiveness liveness_;
  bool wants_data_ = false;   // stays true
  bool silent_told_ = false;  // other ranks ask the peer, too
  bool unreached_ = false;    // the host has been told that nothing reaches the peer
  // Every connected path has the connections that it needs, and has shown that they work. While
  // this is true, settle() has nothing to do.
  bool settled_ = false;
  bool ends_kept_ = false;  // some path keeps the end of its last incarnation
  NicSet drained_local_;
  NicSet drained_remote_;
  std::string last_dial_failure_;
  RelayRoute relay_route_;     // of the relay path's latest connection
  size_t relay_turn_ = 0;      // of the next attempt to find a rank that relays
  size_t relay_asked_ = 0;     // attempts of this search that failed
  bool relay_sought_ = false;  // a search is on
  bool relay_missed_ = false;  // already logged that no rank relays
};

}  // namespace r2ccl
